// Whole files as text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::bench {

// kInvalid for a folder or a device: /dev/zero has no end.
Result<std::string> read_text_file(const std::string& path);

// Whether the folder of what is to be written is there or can be made, and takes files. Before a
// run of hours, not behind it.
Result<void> may_be_written(const std::string& path);

// Written beside and renamed: a crash leaves what was there. Missing directories are made.
Result<void> write_text_file(const std::string& path, std::string_view text);

// One more line at the end of a file that may not exist yet.
Result<void> append_line(const std::string& path, std::string_view line);

}  // namespace saccade::bench
