// The HTML report's own script and style, bundled from web/ at build time.
#pragma once

#include <string_view>

namespace saccade::bench {

std::string_view
report_script();  // empty when the build had no npm: the report is then plain tables
std::string_view report_style();

}  // namespace saccade::bench
