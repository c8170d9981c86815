// From what a workload asks for to requests as a server makes them: tokens that stand for text,
// images by their headers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/proxy/body_scan.h"
#include "engine/request.h"
#include "serve/image_sizes/image_sizer.h"
#include "simulate/machines/served_model.h"
#include "simulate/workload.h"

namespace saccade::simulate {

class PromptMaker {
 public:
  PromptMaker(const ServedModel& model, const Workload& workload)
      : model_(model), workload_(workload) {}

  // What a proxy's scan finds in the body.
  cluster::ScannedBody scanned(std::uint32_t index) const;
  // As large as they come. Errors are the family's.
  Result<std::vector<serve::ImageToSize>> images(std::uint32_t index) const;
  // With images as they are sized.
  Request request(std::uint32_t index, std::span<const serve::ImageToSize> images) const;

 private:
  std::uint64_t name_of(std::uint32_t index) const;

  const ServedModel& model_;
  const Workload& workload_;
};

}  // namespace saccade::simulate
