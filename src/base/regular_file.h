// Files that others may have put where a file is expected: only regular ones are read, so that
// none makes the reader wait (a FIFO, a socket, a terminal) or never ends (a device).
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace saccade {

// A descriptor for reading, and the file's size; the caller closes it. kNotFound: there is none;
// kInvalid: it cannot be opened, or is no regular file.
struct OpenedFile {
  int descriptor = -1;
  std::size_t bytes = 0;
};
Result<OpenedFile> open_regular_file(const std::string& path);

// All of it. kTooLarge: over `most` bytes, also where it grows meanwhile.
Result<std::string> read_regular_file(const std::string& path, std::size_t most);

}  // namespace saccade
