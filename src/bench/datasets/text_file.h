// Whole files as text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::bench {

Result<std::string> read_text_file(const std::string& path);

// Written beside and renamed: a crash leaves what was there. Missing directories are made.
Result<void> write_text_file(const std::string& path, std::string_view text);

// One more line at the end of a file that may not exist yet.
Result<void> append_line(const std::string& path, std::string_view line);

}  // namespace saccade::bench
