#include "bench/datasets/text_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/regular_file.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

Result<void> make_parent(const std::string& path) {
  const auto parent = fs::path(path).parent_path();
  std::error_code code;
  if (!parent.empty()) fs::create_directories(parent, code);
  if (code) return fail(ErrorCode::kInvalid, "{}: {}", parent.string(), code.message());
  return {};
}

// Errors name `meant`, which is another where it is renamed.
Result<void> write_into(const std::string& path, std::string_view text, const std::string& meant,
                        std::ios::openmode mode = std::ios::trunc) {
  std::ofstream file(path, std::ios::binary | mode);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) return fail(ErrorCode::kInvalid, "{}: cannot be written", meant);
  return {};
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t max_of_file,
                                   std::size_t max_of_pipe) {
  std::error_code code;
  if (fs::status(path, code).type() != fs::file_type::fifo)
    return read_regular_file(path, max_of_file);
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "{}: cannot be opened", path);
  std::string text;
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  while (file && text.size() <= max_of_pipe) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    file.read(text.data() + before, kPiece);
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return fail(ErrorCode::kCorrupt, "{}: cannot be read", path);
  if (text.size() > max_of_pipe)
    return fail(ErrorCode::kTooLarge, "{}: a pipe of over {} bytes, which is the limit", path,
                max_of_pipe);
  return text;
}

Result<std::string> read_image_file(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{256} << 20;
  return read_regular_file(path, kMost);
}

Result<void> may_be_written(const std::string& path) {
  TRY_DO(make_parent(path));
  const auto folder = fs::path(path).parent_path();
  std::error_code code;
  if (fs::is_directory(path, code))
    return fail(ErrorCode::kInvalid, "{}: is a directory, a file is to be written", path);
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    return fail(ErrorCode::kInvalid, "{}: {}", path, std::generic_category().message(errno));
  return {};
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
  TRY_DO(make_parent(path));
  std::error_code code;
  const fs::file_status there = fs::status(path, code);
  // Renamed over, a device would be a file for everybody on the machine.
  if (fs::exists(there) && !fs::is_regular_file(there)) return write_into(path, text, path);
  const fs::path resolved = fs::is_symlink(fs::symlink_status(path, code)) && fs::exists(there)
                                ? fs::canonical(path, code)
                                : fs::path(path);
  const std::string part = resolved.string() + ".part";
  TRY_DO(write_into(part, text, path));
  fs::rename(part, resolved, code);
  if (code) return fail(ErrorCode::kInvalid, "{}: {}", path, code.message());
  return {};
}

Result<void> append_line(const std::string& path, std::string_view line) {
  TRY_DO(make_parent(path));
  return write_into(path, std::string(line) + '\n', path, std::ios::app);
}

}  // namespace saccade::bench
