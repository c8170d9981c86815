#include "bench/datasets/text_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace saccade::bench {
namespace {

Result<void> make_parent(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  std::error_code code;
  if (!parent.empty()) std::filesystem::create_directories(parent, code);
  if (code) return fail(ErrorCode::kInvalid, "{}: {}", parent.string(), code.message());
  return {};
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::error_code code;
  const auto kind = std::filesystem::status(path, code).type();
  if (kind == std::filesystem::file_type::directory)
    return fail(ErrorCode::kInvalid, "{}: is a directory, a file is required", path);
  // One of characters may have no end; a pipe has.
  if (kind == std::filesystem::file_type::character || kind == std::filesystem::file_type::block)
    return fail(ErrorCode::kInvalid, "{}: is a device, a file is required", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "{}: cannot be opened", path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return fail(ErrorCode::kCorrupt, "{}: cannot be read", path);
  return text;
}

Result<void> may_be_written(const std::string& path) {
  TRY_DO(make_parent(path));
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    return fail(ErrorCode::kInvalid, "{}: is a directory, a file is to be written", path);
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    return fail(ErrorCode::kInvalid, "{}: {}", path, std::generic_category().message(errno));
  return {};
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
  TRY_DO(make_parent(path));
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) return fail(ErrorCode::kInvalid, "{}: cannot be written", path);
  }
  std::error_code code;
  std::filesystem::rename(part, path, code);
  if (code) return fail(ErrorCode::kInvalid, "{}: {}", path, code.message());
  return {};
}

Result<void> append_line(const std::string& path, std::string_view line) {
  TRY_DO(make_parent(path));
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << line << '\n';
  file.close();
  if (!file) return fail(ErrorCode::kInvalid, "{}: cannot be written", path);
  return {};
}

}  // namespace saccade::bench
