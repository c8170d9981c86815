#include "model/sentence_modules.h"

#include <array>
#include <filesystem>

#include "base/json.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxTokens = 1 << 20;  // over it a length means "no limit"

// The object in a file; an empty one where there is no file.
Result<json::object> read_object_or_none(const std::string& path) {
  if (!fs::exists(path)) return json::object{};
  TRY(json::value tree, json::parse_file(path));
  if (!tree.is_object()) return fail(ErrorCode::kInvalid, "{}: an object is required", path);
  return std::move(tree.get_object());
}

// Once a flag a mode, now its name.
Result<Pooling> parse_pooling(const json::object& config) {
  TRY(std::string mode, json::get_string_or(config, "pooling_mode", ""));
  if (mode.empty()) {
    constexpr std::string_view kPrefix = "pooling_mode_";
    for (const auto& member : config) {
      const std::string_view name = member.key();
      if (!name.starts_with(kPrefix)) continue;
      TRY(const bool on, json::get_bool(config, name));
      if (!on) continue;
      mode += (mode.empty() ? "" : "+") + std::string(name.substr(kPrefix.size()));
    }
  }
  if (mode == "mean" || mode == "mean_tokens") return Pooling::kMean;
  if (mode == "cls" || mode == "cls_token") return Pooling::kCls;
  return fail(ErrorCode::kUnsupported, "pooling \"{}\" is not done; mean and cls are", mode);
}

Result<void> read_pooling(const std::string& path, SentenceModules& modules) {
  TRY(const json::object config, read_object_or_none(path));
  auto pooling = parse_pooling(config);
  if (!pooling) return fail_within(path, std::move(pooling).error());
  modules.pooling = *pooling;
  for (const std::string_view name : {"embedding_dimension", "word_embedding_dimension"}) {
    if (json::find(config, name) == nullptr) continue;
    TRY(modules.dimensions, json::get_int(config, name));
  }
  return {};
}

// The last word of "sentence_transformers.models.Pooling", however the package is laid out.
std::string class_of(const std::string& type) { return type.substr(type.rfind('.') + 1); }

Result<void> read_modules(const std::string& directory, SentenceModules& modules) {
  const std::string path = directory + "/modules.json";
  TRY(const json::value tree, json::parse_file(path));
  if (!tree.is_array()) return fail(ErrorCode::kInvalid, "{}: a list is required", path);
  constexpr std::array<std::string_view, 3> kOrder = {"Transformer", "Pooling", "Normalize"};
  std::size_t next = 0;
  for (const json::value& module : tree.get_array()) {
    if (!module.is_object()) return fail(ErrorCode::kInvalid, "{}: objects are required", path);
    TRY(const std::string type, json::get_string(module.get_object(), "type"));
    TRY(const std::string folder, json::get_string_or(module.get_object(), "path", ""));
    if (next == kOrder.size() || class_of(type) != kOrder[next])
      return fail(ErrorCode::kUnsupported,
                  "{}: module {} is \"{}\"; Transformer, Pooling and perhaps Normalize are done",
                  path, next, type);
    if (folder.starts_with('/') || folder.find("..") != std::string::npos)
      return fail(ErrorCode::kInvalid, "{}: path \"{}\" leaves the folder", path, folder);
    if (next == 1)
      TRY_DO(read_pooling(fmt::format("{}/{}/config.json", directory, folder), modules));
    ++next;
  }
  if (next < 2) return fail(ErrorCode::kInvalid, "{}: there is no Pooling module", path);
  modules.normalise = next == 3;
  return {};
}

Result<void> read_length(const std::string& path, std::string_view field,
                         SentenceModules& modules) {
  if (modules.max_tokens) return {};
  TRY(const json::object config, read_object_or_none(path));
  if (json::find(config, field) == nullptr) return {};
  // Tokenizers without a limit state 1e30.
  auto length = json::get_double(config, field);
  if (!length) return fail_within(path, std::move(length).error());
  if (*length < 2)
    return fail(ErrorCode::kInvalid, "{}: {} is {}, at least 2 is required", path, field, *length);
  if (*length <= static_cast<double>(kMaxTokens))
    modules.max_tokens = static_cast<std::int64_t>(*length);
  return {};
}

}  // namespace

std::string_view name_of(Pooling pooling) { return pooling == Pooling::kMean ? "mean" : "cls"; }

Result<SentenceModules> read_sentence_modules(const std::string& directory) {
  SentenceModules modules;
  if (fs::exists(directory + "/modules.json")) TRY_DO(read_modules(directory, modules));
  TRY_DO(read_length(directory + "/sentence_bert_config.json", "max_seq_length", modules));
  TRY_DO(read_length(directory + "/tokenizer_config.json", "model_max_length", modules));
  return modules;
}

}  // namespace saccade
