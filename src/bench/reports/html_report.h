// One HTML file that shows one or several runs: no network, charts drawn by the script inside
// (web/src/). Without a script (no npm at build time) or with scripts off it is plain tables.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/reports/report_data.h"

namespace saccade::bench {

std::string html_report(std::span<const ReportedRun> runs);
// With another script than the built-in one; with an empty one it is the plain page.
std::string html_report(std::span<const ReportedRun> runs, std::string_view script);

}  // namespace saccade::bench
