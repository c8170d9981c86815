#include "model/checkpoint/hub_cache.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/regular_file.h"
#include "model/checkpoint/checkpoint.h"
#include "model/gguf/gguf_paths.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  constexpr std::size_t kMost = 4096;
  const auto text = read_regular_file(path.string(), kMost);
  std::string line = text ? text->substr(0, text->find('\n')) : "";
  while (!line.empty() && static_cast<unsigned char>(line.back()) <= ' ') line.pop_back();
  return line;
}

// Below `snapshot`, whose links lead somewhere.
std::vector<std::string> gguf_files_of(const fs::path& snapshot) {
  std::vector<std::string> files;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(snapshot, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const fs::path& path = entry->path();
    if (path.extension() == kGgufEnding && fs::exists(path, ignored))
      files.push_back(path.lexically_relative(snapshot).string());
  }
  return files;
}

Result<std::string> find_in_snapshot(const fs::path& snapshot, const GgufWanted& wanted) {
  std::error_code ignored;
  if (!fs::is_directory(snapshot, ignored)) return fail(ErrorCode::kNotFound, "there is none");
  const std::vector<std::string> files = gguf_files_of(snapshot);
  const bool other = files.empty() || fs::exists(snapshot / "model.safetensors", ignored) ||
                     fs::exists(snapshot / "model.safetensors.index.json", ignored);
  if (wanted.model.empty() && other) return snapshot.string();
  TRY(const GgufChoice choice, choose_gguf(files, wanted));
  return gguf_place(snapshot.string(), choice);
}

}  // namespace

std::optional<HubName> hub_name_of(std::string_view name) {
  constexpr std::array<std::string_view, 5> kFiles = {".gguf", ".safetensors", ".bin", ".pt",
                                                      ".pth"};
  std::error_code ignored;
  if (fs::exists(name, ignored)) return std::nullopt;
  const std::size_t colon = std::min(name.find(':'), name.size());
  HubName hub{std::string(name.substr(0, colon)), ""};
  if (colon < name.size()) hub.pattern = name.substr(colon + 1);
  const bool file =
      hub.pattern.empty() &&
      std::ranges::any_of(kFiles, [&](std::string_view ending) { return name.ends_with(ending); });
  if (file || !is_repository_name(hub.repository)) return std::nullopt;
  return hub;
}

Result<std::string> find_in_hub_cache(const std::string& repository, const GgufWanted& wanted,
                                      const std::string& cache, const std::string& revision) {
  if (!is_revision_name(revision))
    return fail(ErrorCode::kInvalid, "revision \"{}\" is not the name of a branch, tag or commit",
                revision);
  const std::string name = repository + (wanted.model.empty() ? "" : ":" + wanted.model);
  const fs::path folder =
      fs::path(cache.empty() ? hub_cache_directory() : cache) / hub_folder(repository);
  std::string commit = first_line(folder / "refs" / revision);
  if (commit.empty()) commit = revision;  // it is one
  if (is_revision_name(commit)) {
    auto found = find_in_snapshot(folder / "snapshots" / commit, wanted);
    if (found) return found;
    if (found.error().code != ErrorCode::kNotFound)
      return fail_within(fmt::format("model \"{}\" in {}", name, folder.string()),
                         std::move(found).error());
  }
  const bool usual = revision == "main";
  return fail(ErrorCode::kNotFound,
              "model \"{}\"{}: no such directory, and not in {}; `saccade model pull {}{}` "
              "downloads it",
              name, usual ? "" : " of revision " + revision, folder.string(), name,
              usual ? "" : " --revision " + revision);
}

}  // namespace saccade
