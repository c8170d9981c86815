#include "model/checkpoint/checkpoint.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "model/checkpoint/hub_cache.h"
#include "model/gguf/gguf_checkpoint.h"
#include "model/gguf/gguf_paths.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr std::string_view kInstead =
    "give a directory with config.json and safetensors, or ORG/NAME (`saccade model pull ORG/NAME` "
    "downloads one)";

Result<void> refuse_single_files(std::string_view name) {
  if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth"))
    return fail(ErrorCode::kUnsupported,
                "{} is a PyTorch pickle, which can run code when it is opened and is not read: {}",
                name, kInstead);
  if (name.ends_with(".safetensors"))
    return fail(ErrorCode::kUnsupported, "{} is one file of a checkpoint: {}", name, kInstead);
  if (std::error_code ignored; fs::exists(name, ignored))
    return fail(ErrorCode::kUnsupported, "{} is neither a directory nor a GGUF: {}", name,
                kInstead);
  return {};
}

Result<json::object> read_object(const fs::path& path) {
  TRY(json::value parsed, json::parse_file(path.string()));
  if (!parsed.is_object())
    return fail(ErrorCode::kInvalid, "{}: {}, an object is required", path.string(),
                json::kind_name(parsed));
  return std::move(parsed.get_object());
}

Result<json::object> read_optional_object(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return json::object{};
  return read_object(path);
}

Result<std::vector<std::string>> shards_of(const json::object& index, const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& member : index) {
    if (!member.value().is_string())
      return fail(ErrorCode::kCorrupt,
                  "model.safetensors.index.json: weight_map.{} is not a string",
                  std::string_view(member.key()));
    const std::string file(member.value().get_string());
    if (file.find('/') != std::string::npos || !file.ends_with(".safetensors"))
      return fail(
          ErrorCode::kCorrupt,
          "model.safetensors.index.json: \"{}\" is not the name of a safetensors file beside it",
          file);
    names.insert(file);
  }
  if (names.empty())
    return fail(ErrorCode::kCorrupt, "model.safetensors.index.json: weight_map is empty");
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back((directory / name).string());
  return paths;
}

// What the directory holds instead of safetensors.
tl::unexpected<Error> no_weights(const fs::path& directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    auto refused = name.ends_with(".safetensors") ? Result<void>{} : refuse_single_files(name);
    if (!refused) return fail_within(directory.string(), std::move(refused).error());
  }
  return fail(ErrorCode::kNotFound,
              "{}: neither model.safetensors nor model.safetensors.index.json", directory.string());
}

}  // namespace

std::string hub_cache_directory() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/huggingface/hub";
  const std::string home = environment("HOME");
  return (home.empty() ? "." : home) + "/.cache/huggingface/hub";
}

std::string hub_folder(std::string_view repository) {
  std::string folder = "models--";
  for (const char c : repository) folder += c == '/' ? std::string("--") : std::string(1, c);
  return folder;
}

bool is_repository_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return false;
  const auto part_is_name = [&](std::string_view part) {
    return !part.empty() && part.front() != '.' && std::ranges::all_of(part, allowed);
  };
  return part_is_name(name.substr(0, slash)) && part_is_name(name.substr(slash + 1));
}

bool is_revision_name(std::string_view name) {
  return is_repository_name("x/" + std::string(name));
}

Result<std::string> resolve_checkpoint(std::string_view name, const std::string& cache,
                                       const std::string& revision) {
  std::error_code ignored;
  const fs::path path{std::string(name)};
  if (fs::is_directory(path, ignored)) return path.string();
  if (std::optional<HubName> hub = hub_name_of(name))
    return find_in_hub_cache(hub->repository, {.model = std::move(hub->pattern)}, cache, revision);
  TRY(const std::optional<GgufPaths> gguf, find_gguf(path.string()));
  if (gguf) {
    for (const std::string& file : {gguf->model, gguf->projector}) {
      if (!file.empty() && !fs::exists(file, ignored))
        return fail(ErrorCode::kNotFound, "model \"{}\": there is no file {}", name, file);
    }
    return gguf_place(*gguf);
  }
  TRY_DO(refuse_single_files(name));
  return fail(ErrorCode::kNotFound, "model \"{}\": no such directory", name);
}

Result<Checkpoint> open_checkpoint(const std::string& directory) {
  const fs::path path(directory);
  std::error_code ignored;
  TRY(const std::optional<GgufPaths> gguf, find_gguf(directory));
  if (gguf) return open_gguf_checkpoint(*gguf);
  if (!fs::exists(path / "config.json", ignored)) {
    if (!fs::is_directory(path, ignored))
      return fail(ErrorCode::kNotFound, "{}: no such directory", directory);
    if (auto files = find_weight_files(directory);
        !files && files.error().code == ErrorCode::kUnsupported)
      return tl::unexpected<Error>(std::move(files).error());
    return fail(ErrorCode::kNotFound, "{}: no config.json", directory);
  }
  Checkpoint checkpoint;
  checkpoint.directory = directory;
  checkpoint.files = directory;
  TRY(checkpoint.config, read_object(path / "config.json"));
  TRY(checkpoint.generation, read_optional_object(path / "generation_config.json"));
  TRY(checkpoint.preprocessor, read_optional_object(path / "preprocessor_config.json"));
  TRY(checkpoint.video_preprocessor, read_optional_object(path / "video_preprocessor_config.json"));
  TRY(const json::object processor, read_optional_object(path / "processor_config.json"));
  const json::value* images = json::find(processor, "image_processor");
  if (checkpoint.preprocessor.empty() && images != nullptr && images->is_object())
    checkpoint.preprocessor = images->get_object();
  const json::value* videos = json::find(processor, "video_processor");
  if (videos != nullptr && videos->is_object())
    checkpoint.video_preprocessor = videos->get_object();
  return checkpoint;
}

Result<WeightFiles> find_weight_files(const std::string& directory) {
  const fs::path path(directory);
  std::error_code ignored;
  WeightFiles files;
  if (fs::exists(path / "model.safetensors", ignored)) {
    files.paths = {(path / "model.safetensors").string()};
    return files;
  }
  const fs::path index = path / "model.safetensors.index.json";
  if (!fs::exists(index, ignored)) return no_weights(path);
  TRY(json::object parsed, read_object(index));
  const json::value* map = json::find(parsed, "weight_map");
  if (map == nullptr || !map->is_object())
    return fail(ErrorCode::kCorrupt, "{}: weight_map is missing", index.string());
  files.index = map->get_object();
  TRY(files.paths, shards_of(files.index, path));
  return files;
}

const json::object& text_section(const json::object& config) {
  for (const std::string_view name : {"text_config", "llm_config"}) {
    const json::value* section = json::find(config, name);
    if (section != nullptr && section->is_object()) return section->get_object();
  }
  return config;
}

Result<std::vector<TokenId>> eos_tokens(const Checkpoint& checkpoint) {
  const json::value* found = json::find(checkpoint.generation, "eos_token_id");
  if (found == nullptr) found = json::find(checkpoint.config, "eos_token_id");
  if (found == nullptr) found = json::find(text_section(checkpoint.config), "eos_token_id");
  if (found == nullptr) return std::vector<TokenId>{};
  std::vector<TokenId> tokens;
  const auto add = [&](const json::value& id) {
    const bool fits = id.is_int64() && id.get_int64() >= 0 && id.get_int64() <= INT32_MAX;
    if (fits) tokens.push_back(static_cast<TokenId>(id.get_int64()));
    return fits;
  };
  const bool understood =
      found->is_array() ? std::ranges::all_of(found->get_array(), add) : add(*found);
  if (!understood)
    return fail(ErrorCode::kInvalid, "eos_token_id is {}, a token id or a list of them is required",
                json::kind_name(*found));
  return tokens;
}

}  // namespace saccade
