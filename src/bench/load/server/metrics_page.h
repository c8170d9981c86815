// A server's /metrics page in Prometheus' text format, as numbers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace saccade::bench {

struct MetricsPageLimits {
  std::size_t max_series = 10'000;
  bool buckets = false;  // histogram buckets too, not only _sum and _count
};

// Series by name with its labels as they stand ("vllm:num_requests_running{model_name=\"m\"}") and
// value, in the page's order. Values that are not finite are left out. A page that is not in the
// format is kInvalid with the line.
Result<std::vector<std::pair<std::string, double>>> parse_metrics_page(
    std::string_view page, const MetricsPageLimits& limits = {});

}  // namespace saccade::bench
