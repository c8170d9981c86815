// The highest load that still meets its targets.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "bench/methods/seed_methods.h"
#include "bench/metrics/statistics.h"

namespace saccade::bench {

struct SearchSettings {
  ServeSettings serve;       // output.goodput holds the targets
  double attainment = 0.99;  // share of requests that must meet all of them
  double first_rate = 1;     // requests per second
  double precision = 0.05;   // relative width of the bracket at which the search ends
  int confirmations = 2;     // more runs at the rate that was found, with other arrivals
  int max_runs = 30;
};

// What one run at a rate says.
struct SearchStep {
  double rate = 0;
  std::int64_t good = 0;  // requests that met every target
  std::int64_t all = 0;
  double attainment = 0;
  Interval interval;  // of the attainment, 95 % (Wilson)
  bool overloaded = false;
  bool holds = false;
};

struct SearchResult {
  std::vector<SearchStep> steps;
  double rate = 0;   // highest that held and was confirmed; 0: none
  double above = 0;  // lowest that did not hold; 0: none was found
  bool confirmed = false;
};

// Doubles or halves until the rate is bracketed, then bisects, then confirms; a rate that is not
// confirmed is lowered to the next one that held. `measure` runs a rate with a seed: the same seed
// at every rate (common random numbers), others to confirm.
Result<SearchResult> search_rate(
    const SearchSettings& settings,
    const std::function<Result<SearchStep>(double rate, std::uint64_t seed)>& measure);

Result<MethodOutcome> search_run(const SearchSettings& settings, std::atomic<bool>& stop);

// Wilson's interval of a share.
Interval share_interval(std::int64_t good, std::int64_t all, double confidence = 0.95);

}  // namespace saccade::bench
