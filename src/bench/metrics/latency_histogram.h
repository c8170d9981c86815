// Durations counted in buckets of 6 %: for figures while a run goes on, where keeping every value
// would cost too much. Results come from the run log, never from here.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace saccade::bench {

// One thread adds, any thread reads.
class LatencyHistogram {
 public:
  void add(Nanos duration);
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  Nanos max() const { return max_.load(std::memory_order_relaxed); }
  // The upper end of the bucket that holds the quantile, at most max(); 0 when empty.
  Nanos quantile(double q) const;
  // Adds what another one holds. Its writer may go on.
  void merge(const LatencyHistogram& other);

 private:
  static constexpr int kSubBits = 4;  // 16 buckets an octave
  static constexpr int kSub = 1 << kSubBits;
  static constexpr int kBuckets = 64 * kSub;
  static int bucket_of(Nanos duration);
  static Nanos upper_end(int bucket);

  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> count_{0};
  std::atomic<Nanos> max_{0};
};

}  // namespace saccade::bench
