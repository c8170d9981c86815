// Cumulative distributions as an SVG drawing.
#pragma once

#include <span>
#include <string>

#include "bench/metrics/statistics.h"

namespace saccade::bench {

struct CdfCurve {
  std::string name;
  const Distribution* sample = nullptr;  // seconds
};

struct CdfSettings {
  std::string title;
  std::string axis = "TTFT (s)";
  double x_max = 0;  // seconds; 0: the largest value
};

// P50, P90, P95 and P99 of the first curve are dashed lines with their values. A page of its own:
// no script, no font, no network.
std::string cdf_svg(std::span<const CdfCurve> curves, const CdfSettings& settings);

}  // namespace saccade::bench
