// What this program was built from and for.
#pragma once

#include <string>

namespace saccade {

// "0.1.0 (commit 1a2b3c4d5e6f, GCC 12.2.0, Release)"
std::string build_line();
// The line, and one of features: what --version prints.
std::string version_text();
bool is_fast_build();  // optimised, and without sanitizers

}  // namespace saccade
