#include "model/gguf/gguf_paths.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/text/ascii.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Whether `name` ends as kGgufPartEnding does.
bool is_part(std::string_view name) {
  if (name.size() < kGgufPartEnding.size()) return false;
  const std::string_view tail = name.substr(name.size() - kGgufPartEnding.size());
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const bool digit = kGgufPartEnding[i] >= '0' && kGgufPartEnding[i] <= '9';
    const bool fits = digit ? tail[i] >= '0' && tail[i] <= '9' : tail[i] == kGgufPartEnding[i];
    if (!fits) return false;
  }
  return true;
}

Result<std::string> only_one(const fs::path& directory, const std::vector<std::string>& names,
                             std::string_view what) {
  if (names.empty()) return std::string();
  if (names.size() == 1) return (directory / names.front()).string();
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return fail(ErrorCode::kInvalid, "{} holds {} {} in GGUF; name one of {}", directory.string(),
              names.size(), what, list);
}

Result<std::optional<GgufPaths>> find_in_folder(const fs::path& directory) {
  std::error_code ignored;
  for (const char* const other : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(directory / other, ignored)) return std::optional<GgufPaths>();
  }
  std::vector<std::string> models;
  std::vector<std::string> projectors;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kGgufEnding) || is_later_gguf_part(name)) continue;
    (names_gguf_projector(name) ? projectors : models).push_back(std::move(name));
  }
  if (models.empty()) return std::optional<GgufPaths>();
  std::ranges::sort(models);
  std::ranges::sort(projectors);
  GgufPaths paths;
  TRY(paths.model, only_one(directory, models, "models"));
  TRY(paths.projector, only_one(directory, projectors, "projectors"));
  return std::optional<GgufPaths>(std::move(paths));
}

}  // namespace

Result<std::optional<GgufPaths>> find_gguf(const std::string& place) {
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) return find_in_folder(place);
  if (!place.ends_with(kGgufEnding)) return std::optional<GgufPaths>();
  const std::size_t comma = place.rfind(std::string(kGgufEnding) + ",");
  if (comma == std::string::npos || fs::exists(place, ignored))
    return std::optional<GgufPaths>({place, ""});
  const std::size_t end = comma + kGgufEnding.size();
  return std::optional<GgufPaths>({place.substr(0, end), place.substr(end + 1)});
}

std::string gguf_place(const GgufPaths& paths) {
  return paths.projector.empty() ? paths.model : paths.model + "," + paths.projector;
}

Result<std::vector<std::string>> gguf_shards(const std::string& path, std::int64_t count) {
  constexpr std::int64_t kMost = 99'999;
  const std::string tail = fmt::format("-00001-of-{:05}{}", count, kGgufEnding);
  if (count < 1 || count > kMost || !path.ends_with(tail))
    return fail(ErrorCode::kInvalid,
                "{}: it is one of {} files (split.count); give the first, whose name ends with {}",
                path, count, tail);
  const std::string stem = path.substr(0, path.size() - tail.size());
  std::vector<std::string> paths;
  for (std::int64_t i = 1; i <= count; ++i)
    paths.push_back(fmt::format("{}-{:05}-of-{:05}{}", stem, i, count, kGgufEnding));
  return paths;
}

std::int64_t gguf_parts(std::string_view name) {
  if (!is_part(name)) return 1;
  const std::string count(name.substr(name.size() - kGgufEnding.size() - 5, 5));
  return std::max(1, std::stoi(count));
}

bool is_later_gguf_part(std::string_view name) {
  return is_part(name) && name.substr(name.size() - kGgufPartEnding.size() + 1, 5) != "00001";
}

bool names_gguf_projector(std::string_view name) {
  return ascii::lower(name).find("mmproj") != std::string::npos;
}

}  // namespace saccade
