// Traces with a given peak rate: thinned, scaled or capped from another trace, or generated. Every
// construction is deterministic, and writes what it did into the notes.
#pragma once

#include <cstdint>

#include "bench/traces/trace.h"

namespace saccade::bench {

enum class PeakWindow { kBins, kSliding };  // bins count from the trace's origin

// The most arrivals in `width`, over `width`, is to be `per_second`.
struct Peak {
  double per_second = 0;
  Nanos width = kSecond;
  PeakWindow window = PeakWindow::kBins;
};
// Arrivals in the busiest window.
std::int64_t peak_count(std::span<const Nanos> due, const Peak& peak);

// Keeps each arrival with one probability p, the largest whose peak does not exceed the target:
// each arrival draws one seeded uniform and stays when it is below p, so that the sets are nested.
// Bursts keep their shape and rows their lengths. kInvalid when the trace's own peak is below.
Result<Trace> thin_to_peak(const Trace& trace, const Peak& peak, std::uint64_t seed);

// Multiplies all times by the smallest factor (to 0.001) whose peak does not exceed the target.
// Use windows of 10 s or more: over 1 s single bursts rule.
Result<Trace> scale_to_peak(const Trace& trace, const Peak& peak);

// Moves arrivals over the target into the next bin with room (bins only): keeps their number.
Result<Trace> cap_at_peak(const Trace& trace, const Peak& peak);

struct GenerateSettings {
  Peak peak;  // exact
  double mean_rate = 1;
  double gap_cv = 1;  // gamma gaps; 1 is a Poisson process
  double duration_s = 600;
  std::uint64_t seed = 0;
  int max_draws = 100'000;
};
// Gamma gaps, in whole milliseconds, drawn again and again until the peak is exact. kInvalid when
// no draw has it: mean and peak do not fit together.
Result<Trace> generate_with_peak(const GenerateSettings& settings);

}  // namespace saccade::bench
