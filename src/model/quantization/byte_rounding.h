// Rounding of a matrix to bytes with a scale an output, as ops/formats/int8_rows.h says: what
// `saccade model quantize` writes, and the same codes and scales as --quantization int8 makes while
// weights are loaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads/thread_pool.h"
#include "ops/formats/stored_matrix.h"

namespace saccade {

class RoundedBytes {
 public:
  // Reads a few rows at a time, on all threads.
  RoundedBytes(const StoredMatrix& weights, ThreadPool& pool);

  std::span<const std::int8_t> codes() const { return codes_; }  // [out, in]
  std::span<const float> scales() const { return scales_; }      // [out]

 private:
  std::vector<std::int8_t> codes_;
  std::vector<float> scales_;
};

}  // namespace saccade
