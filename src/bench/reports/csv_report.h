// One line per request, for spreadsheets.
#pragma once

#include <string>

#include "bench/metrics/metrics.h"

namespace saccade::bench {

// RFC 4180 with a header line; times in milliseconds unless the column says otherwise, empty where
// undefined. Warm-up requests are left out.
std::string requests_csv(const RunLog& log, const RunMetrics& metrics);

}  // namespace saccade::bench
