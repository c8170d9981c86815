// The lists of one step while they are written, and their way to the device.
#pragma once

#include <cstdint>
#include <vector>

#include "model/network.h"

namespace saccade {

// Members as Batch has them. Kept from step to step: it allocates nothing once it has grown.
struct BatchLists {
  std::vector<std::int32_t> ids;
  std::vector<std::vector<std::int32_t>> positions;  // [axes][rows]
  std::vector<std::int32_t> long_rows;
  std::vector<std::int32_t> embedding_sources;
  std::vector<std::int32_t> embedding_rows;
  std::vector<std::int32_t> seeing_rows;
  std::vector<std::int32_t> image_rows;
  std::vector<std::int32_t> logit_rows;
  std::vector<std::int32_t> lora_rows;

  void clear();
  // One transfer, of which the batch gets slices: good until the stream's retire().
  void upload(Stream& stream, Batch& batch);

 private:
  std::vector<std::int32_t> side_by_side_;
};

}  // namespace saccade
