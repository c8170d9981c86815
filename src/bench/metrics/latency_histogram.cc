// Buckets: the leading bit says the octave, the four bits behind it the part.
#include "bench/metrics/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace saccade::bench {

int LatencyHistogram::bucket_of(Nanos duration) {
  const auto value = static_cast<std::uint64_t>(std::max<Nanos>(duration, 0));
  if (value < kSub) return static_cast<int>(value);
  const int octave = std::bit_width(value) - 1;
  const int part = static_cast<int>((value >> (octave - kSubBits)) & (kSub - 1));
  return (octave - kSubBits + 1) * kSub + part;
}

Nanos LatencyHistogram::upper_end(int bucket) {
  if (bucket < kSub) return bucket;
  const int octave = bucket / kSub + kSubBits - 1;
  const std::int64_t part = bucket % kSub;
  return ((kSub + part + 1) << (octave - kSubBits)) - 1;
}

void LatencyHistogram::add(Nanos duration) {
  buckets_[static_cast<std::size_t>(bucket_of(duration))].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  if (duration > max()) max_.store(duration, std::memory_order_relaxed);
}

Nanos LatencyHistogram::quantile(double q) const {
  std::uint64_t total = 0;
  for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
  if (total == 0) return 0;
  const auto rank =
      static_cast<std::uint64_t>(std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(total)));
  std::uint64_t below = 0;
  for (int i = 0; i < kBuckets; ++i) {
    below += buckets_[static_cast<std::size_t>(i)].load(std::memory_order_relaxed);
    if (below >= std::max<std::uint64_t>(rank, 1)) return std::min(upper_end(i), max());
  }
  return max();
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].fetch_add(other.buckets_[i].load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
  }
  count_.fetch_add(other.count(), std::memory_order_relaxed);
  if (other.max() > max()) max_.store(other.max(), std::memory_order_relaxed);
}

}  // namespace saccade::bench
