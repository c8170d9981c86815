#include "serve/media/media_fetcher.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "base/text/base64.h"
#include "net/http_text.h"
#include "serve/media/media_reference.h"

namespace saccade::serve {
namespace {

// --- data: --------------------------------------------------------------------------------------

Result<std::string> decode_data_url(std::string_view reference, const MediaLimit& limit) {
  const std::size_t comma = reference.find(',');
  const std::string_view head = reference.substr(0, std::min(comma, reference.size()));
  if (comma == std::string_view::npos || !says_base64(head)) {
    return fail(ErrorCode::kUndecodable, "{}: a data URL must read data:TYPE;base64,DATA",
                shortened(reference));
  }
  const std::string_view text = reference.substr(comma + 1);
  if (base64_decoded_bound(text) > limit.bytes + 2) {
    return fail(ErrorCode::kTooLarge, "{}: {} has about {} bytes, limit {}{}", shortened(reference),
                limit.noun, base64_decoded_bound(text), limit.bytes, limit.flag);
  }
  Result<std::string> bytes = base64_decode_forgiving(text);
  if (!bytes) {
    return fail(ErrorCode::kUndecodable, "{}: {}", shortened(reference), bytes.error().message);
  }
  if (bytes->size() > limit.bytes) {
    return fail(ErrorCode::kTooLarge, "{}: {} has {} bytes, limit {}{}", shortened(reference),
                limit.noun, bytes->size(), limit.bytes, limit.flag);
  }
  return bytes;
}

// --- file:// ------------------------------------------------------------------------------------

// The path of file:///path or file://localhost/path; absent when it is neither.
std::optional<std::string> path_of(std::string_view reference) {
  std::string_view rest = reference.substr(std::strlen("file://"));
  if (has_scheme(rest, "localhost/")) rest.remove_prefix(std::strlen("localhost"));
  if (!rest.starts_with('/') || rest.size() > std::size_t{3} * PATH_MAX) return std::nullopt;
  std::string path = net::percent_decode(rest);
  if (path.find('\0') != std::string::npos || path.size() >= PATH_MAX) return std::nullopt;
  return path;
}

std::optional<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(realpath(path.c_str(), nullptr),
                                                             std::free);
  if (resolved == nullptr) return std::nullopt;
  return std::string(resolved.get());
}

bool lies_within(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// The path with symlinks resolved, or as much of its beginning as exists.
std::string real_beginning(std::string path) {
  while (true) {
    if (const auto resolved = real_path(path)) return *resolved;
    const std::size_t slash = path.find_last_of('/');
    if (slash == 0 || slash == std::string::npos) return "/";
    path.resize(slash);
  }
}

// Owns a file descriptor.
class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Result<std::string> read_all(const File& file, const std::string& name, const MediaLimit& limit,
                             const std::atomic<bool>& cancelled) {
  struct stat status{};
  if (fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail(ErrorCode::kUndecodable, "{}: not a regular file", name);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > limit.bytes) {
    return fail(ErrorCode::kTooLarge, "{}: the file has {} bytes, limit {}{}", name, size,
                limit.bytes, limit.flag);
  }
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    if (cancelled.load(std::memory_order_relaxed))
      return fail(ErrorCode::kCancelled, "{}: cancelled", name);
    constexpr std::size_t kPiece = 4u << 20;
    const ssize_t count =
        read(file.descriptor(), bytes.data() + have, std::min(kPiece, bytes.size() - have));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(ErrorCode::kUndecodable, "{}: cannot be read", name);
    have += static_cast<std::size_t>(count);
  }
  return bytes;
}

// What lies outside the folder is refused in one way, whether it exists or not.
Result<std::string> read_local_file(std::string_view reference, const MediaSettings& settings,
                                    const std::atomic<bool>& cancelled, const MediaLimit& limit) {
  const std::string name = shortened(reference);
  if (settings.allowed_local_path.empty()) {
    return fail(ErrorCode::kDenied,
                "{}: this server reads no local files (--allowed-local-media-path)", name);
  }
  const std::optional<std::string> path = path_of(reference);
  if (!path) return fail(ErrorCode::kInvalid, "{}: a file URL must read file:///PATH", name);
  const std::optional<std::string> folder = real_path(settings.allowed_local_path);
  const auto denied = [&] {
    return fail(ErrorCode::kDenied, "{}: not under the folder of --allowed-local-media-path", name);
  };
  if (!folder || !lies_within(real_beginning(*path), *folder)) return denied();
  const std::optional<std::string> resolved = real_path(*path);
  if (!resolved) return fail(ErrorCode::kUndecodable, "{}: no such file", name);

  const File file(*resolved);
  if (file.descriptor() < 0) return fail(ErrorCode::kUndecodable, "{}: cannot be opened", name);
  // The path may have been changed since it was resolved: the open file says where it really is.
  const auto opened = real_path("/proc/self/fd/" + std::to_string(file.descriptor()));
  if (!opened || !lies_within(*opened, *folder)) return denied();
  return read_all(file, name, limit, cancelled);
}

}  // namespace

MediaLimit limit_of(const MediaSettings& settings, MediaKind kind) {
  if (kind == MediaKind::kImage) return {settings.max_bytes, "the image", ""};
  return {settings.max_video_bytes, "the video", " (--max-video-bytes)"};
}

bool is_remote_media(std::string_view reference) {
  return has_scheme(reference, "http://") || has_scheme(reference, "https://");
}

Result<std::string> read_media(std::string_view reference, const MediaSettings& settings,
                               const std::atomic<bool>& cancelled, MediaKind kind) {
  const MediaLimit limit = limit_of(settings, kind);
  if (cancelled.load(std::memory_order_relaxed))
    return fail(ErrorCode::kCancelled, "{}: cancelled", shortened(reference));
  if (has_scheme(reference, "data:")) return decode_data_url(reference, limit);
  if (has_scheme(reference, "file://"))
    return read_local_file(reference, settings, cancelled, limit);
  return fail(ErrorCode::kInvalid, "{}: an image is a data:, file:// or http(s):// URL",
              shortened(reference));
}

}  // namespace saccade::serve
