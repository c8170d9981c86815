// A run as SGLang's client prints it.
#pragma once

#include <string>

#include "bench/metrics/metrics.h"

namespace saccade::bench {

// Rows that need what nobody counted (retokenised text, vision tokens) are left out.
std::string sglang_block(const RunLog& log, const RunMetrics& metrics);

}  // namespace saccade::bench
