// From an image's input rows to its embeddings: what towers of all kinds promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "model/checkpoint/weight_table.h"
#include "model/network.h"

namespace saccade {

// What a run is of, as Network::begin_encode is told.
struct EncodeArgs {
  Stream& stream;
  std::span<const PreparedImage* const> images;
  std::span<const View> out;
  Tap tap;
};

class VisionTower {
 public:
  virtual ~VisionTower() = default;
  virtual void add_weights(WeightTable& table) = 0;
  virtual void set_compute(DType compute) = 0;
  virtual Result<void> reserve(Device& device, std::int64_t patch_rows) = 0;
  virtual std::size_t scratch_bytes() const = 0;
  virtual std::unique_ptr<EncodeRun> begin(const EncodeArgs& args) = 0;
};

}  // namespace saccade
