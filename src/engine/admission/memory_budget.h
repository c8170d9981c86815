// How much of a device's own memory keys and values get: a share of all of it, less what everything
// else takes. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace saccade {

// Bytes. What is taken already is `total` less `free`: weights, and whatever other processes have.
struct DeviceMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t scratch = 0;   // the model's, for a step and for images
  std::int64_t images = 0;    // embeddings
  std::int64_t sampling = 0;  // logits, and what sampling makes of them
  std::int64_t adapters = 0;  // as many as may be on the device
  std::int64_t graphs = 0;    // steps kept as one launch
  std::int64_t lists = 0;     // of steps under way, and the streams'
};

// For messages.
constexpr double gibibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// `utilization`: of `total`, all processes together, above 0 and at most 1. kExhausted, with what
// takes how much, when less than `least` is left.
Result<std::int64_t> kv_bytes_of(double utilization, const DeviceMemory& use, std::int64_t least);

}  // namespace saccade
