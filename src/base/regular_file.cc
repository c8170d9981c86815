#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace saccade {
namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Result<OpenedFile> open_regular_file(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return fail(ErrorCode::kInvalid, "{}: a path has no NUL", path.substr(0, path.find('\0')));
  // Not to wait for whoever writes into a FIFO; it says nothing to a regular file.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    const bool absent = errno == ENOENT || errno == ENOTDIR;
    return fail(absent ? ErrorCode::kNotFound : ErrorCode::kInvalid, "{}: {}", path,
                std::strerror(errno));
  }
  struct stat status{};
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode))
    return OpenedFile{file, static_cast<std::size_t>(status.st_size)};
  ::close(file);
  return fail(ErrorCode::kInvalid, "{}: {}, a regular file is required", path,
              kind_of(status.st_mode));
}

Result<std::string> read_regular_file(const std::string& path, std::size_t most) {
  TRY(const OpenedFile file, open_regular_file(path));
  const auto too_large = [&](std::size_t bytes) {
    ::close(file.descriptor);
    return fail(ErrorCode::kTooLarge, "{}: {} bytes, limit {}", path, bytes, most);
  };
  if (file.bytes > most) return too_large(file.bytes);
  std::string text(std::min(most, file.bytes) + 1, '\0');  // one more: its end has to be seen
  std::size_t read = 0;
  while (true) {
    const ssize_t some = ::read(file.descriptor, text.data() + read, text.size() - read);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) {
      const int error = errno;
      ::close(file.descriptor);
      return fail(ErrorCode::kInvalid, "{}: {}", path, std::strerror(error));
    }
    if (some == 0) break;
    read += static_cast<std::size_t>(some);
    if (read > most) return too_large(read);
    if (read == text.size()) text.resize(std::min(2 * read, most + 1));
  }
  ::close(file.descriptor);
  text.resize(read);
  return text;
}

}  // namespace saccade
