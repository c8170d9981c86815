// Whole files as text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::bench {

inline constexpr std::size_t kMaxOfFile = std::size_t{4} << 30;
inline constexpr std::size_t kMaxOfPipe = std::size_t{1} << 30;

// A regular file or a pipe. kInvalid for a folder or a device: /dev/zero has no end. kTooLarge:
// over `max_of_file` bytes, known before any is read, or `max_of_pipe`, as nobody knows whether
// it ends.
Result<std::string> read_text_file(const std::string& path, std::size_t max_of_file = kMaxOfFile,
                                   std::size_t max_of_pipe = kMaxOfPipe);

// Of one picture, which no pipe brings.
Result<std::string> read_image_file(const std::string& path);

// Whether the folder of what is to be written is there or can be made, and takes files. Before a
// run of hours, not behind it.
Result<void> may_be_written(const std::string& path);

// Written beside and renamed: a crash leaves what was there. Missing directories are made. A link
// stays one, and what is no regular file (/dev/null, /dev/stdout, a pipe) is written into.
Result<void> write_text_file(const std::string& path, std::string_view text);

// One more line at the end of a file that may not exist yet.
Result<void> append_line(const std::string& path, std::string_view line);

}  // namespace saccade::bench
