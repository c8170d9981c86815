// The page at "/", built from web/playground/. Both are empty where the program was built without
// npm.
#pragma once

#include <string_view>

namespace saccade::serve {

std::string_view page_html();  // one file, everything in it
std::string_view
page_policy();  // its Content-Security-Policy: this script, this style, this server

}  // namespace saccade::serve
