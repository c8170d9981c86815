// A CUDA device, matrices of random numbers in its memory, and the time of an op.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "benchmarks/gpu/figures.h"
#include "ops/device.h"

namespace saccade {

// Bytes of weights or states that take turns, more than any second-level cache holds: a step of a
// model reads all its memory between two uses of one.
constexpr std::int64_t kRotated = std::int64_t{256} << 20;

struct DeviceMatrix {
  Buffer buffer;
  View view;
};

// One thread.
class DeviceBench {
 public:
  // `seconds`: after these over() is true; whoever measures row by row stops there. `rehearsal`:
  // every op runs once more and no further, as the emulator needs it.
  DeviceBench(std::unique_ptr<Device> device, Figures& figures, double seconds, bool rehearsal);

  Device& device() { return *device_; }
  Stream& stream() { return device_->lane(Lane::kStep); }
  Figures& figures() { return figures_; }
  bool rehearsal() const { return rehearsal_; }
  bool over() const;

  // Numbers in (-scale, scale), the same at every call. Ends the program when memory is short.
  DeviceMatrix random(std::int64_t rows, std::int64_t cols, DType type, float scale = 0.5f);
  DeviceMatrix empty(std::int64_t rows, std::int64_t cols, DType type);
  // [out, in] of random bf16, packed as `compute` says.
  std::unique_ptr<PackedWeight> weight(std::int64_t out, std::int64_t in,
                                       DType compute = DType::kBf16);
  // What weight() has there, as bf16.
  float weight_at(std::int64_t in, std::int64_t row, std::int64_t col) const;
  // Rows as the host sees them.
  Buffer download(View from);

  // Of one call, of many that are queued one behind another: the median of three rounds, after one
  // call that counts for nothing. It is the time of the launch where that is longer.
  double time(const std::function<void()>& op);

 private:
  const SteadyClock clock_;
  std::unique_ptr<Device> device_;
  Figures& figures_;
  Nanos end_;
  bool rehearsal_;
  std::vector<float> noise_;  // of which matrices are made
};

}  // namespace saccade
