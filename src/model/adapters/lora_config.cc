#include "model/adapters/lora_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace saccade {
namespace {

constexpr std::int64_t kMaxRank = 4096;
// Of the expressions of one member, and of names in a list. An adapter whose every module has a
// rank of its own has some hundreds.
constexpr std::size_t kMaxEntries = 4096;
constexpr std::size_t kMaxExpression = 2048;  // bytes
constexpr std::size_t kMaxModuleName = 512;   // bytes
constexpr std::uint32_t kMaxSteps = 100'000;  // of one expression for one name
constexpr Nanos kExpressionTime = 2 * kSecond;

// Read below, or without a say in what a forward gives.
constexpr std::array<std::string_view, 26> kKnown = {
    "alpha_pattern",     "auto_mapping",   "base_model_name_or_path", "bias",
    "corda_config",      "eva_config",     "exclude_modules",         "inference_mode",
    "init_lora_weights", "layers_pattern", "layers_to_transform",     "loftq_config",
    "lora_alpha",        "lora_dropout",   "lora_ga_config",          "megatron_core",
    "peft_type",         "peft_version",   "qalora_group_size",       "r",
    "rank_pattern",      "revision",       "runtime_config",          "target_modules",
    "task_type",         "use_rslora"};

bool says_nothing(const json::value& value) {
  if (value.is_null()) return true;
  if (const auto* truth = value.if_bool()) return !*truth;
  if (const auto* list = value.if_array()) return list->empty();
  if (const auto* members = value.if_object()) return members->empty();
  return false;
}

// As messages show a value: its beginning.
Result<void> check_members(const json::object& config) {
  for (const auto& member : config) {
    const std::string_view name(member.key());
    if (std::ranges::find(kKnown, name) != kKnown.end() || says_nothing(member.value())) continue;
    return fail(ErrorCode::kUnsupported, "{} {} is not supported", name.substr(0, 64),
                json::shown(member.value()));
  }
  TRY(const std::string type, json::get_string_or(config, "peft_type", "LORA"));
  if (type != "LORA")
    return fail(ErrorCode::kUnsupported, "peft_type {} is not supported, LORA is",
                type.substr(0, 64));
  TRY(const std::string bias, json::get_string_or(config, "bias", "none"));
  if (bias != "none")
    return fail(ErrorCode::kUnsupported, "bias {} is not supported, none is", bias.substr(0, 64));
  // Others begin by changing the matrices that they are added to.
  if (const json::value* start = json::find(config, "init_lora_weights")) {
    const auto* text = start->if_string();
    if (text != nullptr && *text != "gaussian" && *text != "eva" && *text != "orthogonal")
      return fail(ErrorCode::kUnsupported,
                  "init_lora_weights {} is not supported: it changes the model's own matrices; "
                  "PEFT's save_pretrained converts such an adapter with "
                  "path_initial_model_for_weight_conversion",
                  json::shown(*start));
  }
  if (const json::value* pattern = json::find(config, "layers_pattern")) {
    const bool plain = says_nothing(*pattern) || *pattern == json::value("layers") ||
                       *pattern == json::value(json::array{"layers"}) ||
                       *pattern == json::value("");
    if (!plain)
      return fail(ErrorCode::kUnsupported, "layers_pattern {} is not supported, \"layers\" is",
                  json::shown(*pattern));
  }
  return {};
}

Result<void> check_entries(std::string_view member, std::size_t entries) {
  if (entries <= kMaxEntries) return {};
  return fail(ErrorCode::kTooLarge, "{} has {} entries, the limit is {}", member, entries,
              kMaxEntries);
}

Result<std::vector<std::int64_t>> layers_of(const json::value& value) {
  std::vector<std::int64_t> layers;
  const auto take = [&](const json::value& one) -> Result<void> {
    const auto* number = one.if_int64();
    if (number == nullptr)
      return fail(ErrorCode::kInvalid, "layers_to_transform {} is no list of numbers",
                  json::shown(value));
    layers.push_back(*number);
    return {};
  };
  if (const auto* list = value.if_array()) {
    TRY_DO(check_entries("layers_to_transform", list->size()));
    for (const json::value& one : *list) TRY_DO(take(one));
  } else {
    TRY_DO(take(value));
  }
  return layers;
}

Result<Regex> compile(std::string_view member, std::string_view pattern, const std::string& whole) {
  if (pattern.size() > kMaxExpression)
    return fail(ErrorCode::kTooLarge, "{}: an expression of {} bytes, the limit is {}", member,
                pattern.size(), kMaxExpression);
  auto made = Regex::compile_for_names(whole);
  if (!made)
    return fail(made.error().code, "{}: the expression '{}': {}", member, pattern.substr(0, 256),
                made.error().message);
  return made;
}

// What checkpoints call the matrix that tokens are looked up in.
constexpr std::array<std::string_view, 3> kEmbeddings = {"embed_tokens", "tok_embeddings", "wte"};

bool ends_with_name(std::string_view module, std::string_view name) {
  return module == name || (module.ends_with(name) && module.size() > name.size() &&
                            module[module.size() - name.size() - 1] == '.');
}

}  // namespace

ExpressionTime::ExpressionTime() : end_(steady_now() + kExpressionTime) {}

Result<void> ExpressionTime::check() const {
  if (steady_now() <= end_) return {};
  return fail(ErrorCode::kTooLarge, "its expressions take over {} s", kExpressionTime / kSecond);
}

Result<ModuleChoice> ModuleChoice::parse(std::string_view member, const json::value& value,
                                         bool all_linear) {
  ModuleChoice choice;
  if (const auto* text = value.if_string()) {
    if (all_linear && *text == "all-linear") {
      choice.all_ = true;
      return choice;
    }
    const std::string pattern(*text);
    TRY(choice.pattern_, compile(member, pattern, fmt::format("\\A(?:{})\\z", pattern)));
    return choice;
  }
  const auto* list = value.if_array();
  if (list == nullptr)
    return fail(ErrorCode::kInvalid, "{} {} is no list of names and no expression", member,
                json::shown(value));
  TRY_DO(check_entries(member, list->size()));
  for (const json::value& one : *list) {
    const auto* name = one.if_string();
    if (name == nullptr)
      return fail(ErrorCode::kInvalid, "{}: {} is no name", member, json::shown(one));
    choice.names_.emplace_back(*name);
  }
  return choice;
}

Result<bool> ModuleChoice::chooses(std::string_view module) const {
  if (all_) return true;
  if (pattern_) return pattern_->matches_at_start(module, kMaxSteps);
  return std::ranges::any_of(names_,
                             [&](const std::string& name) { return ends_with_name(module, name); });
}

Result<ModuleValues> ModuleValues::parse(std::string_view member, const json::object& numbers,
                                         const ExpressionTime& time) {
  TRY_DO(check_entries(member, numbers.size()));
  ModuleValues made;
  for (const auto& entry : numbers) {
    TRY_DO(time.check());
    const std::string key(entry.key());
    const auto number = json::get_double(numbers, entry.key());
    if (!number || !(*number > 0) || !std::isfinite(*number))
      return fail(ErrorCode::kInvalid, "{}: '{}' is {}, a positive number is required", member,
                  key.substr(0, 256), json::shown(entry.value()));
    TRY(Regex pattern, compile(member, key, fmt::format("\\A(?:.*\\.)?(?:{})\\z", key)));
    made.entries_.push_back({std::move(pattern), *number});
  }
  return made;
}

Result<double> ModuleValues::of(std::string_view module, double all,
                                const ExpressionTime& time) const {
  for (const Entry& entry : entries_) {
    TRY_DO(time.check());
    TRY(const bool matches, entry.pattern.matches_at_start(module, kMaxSteps));
    if (matches) return entry.number;
  }
  return all;
}

Result<LoraConfig> LoraConfig::parse(const json::object& config, const ExpressionTime& time) {
  LoraConfig made;
  made.time_ = time;
  TRY_DO(check_members(config));
  TRY(made.rank_, json::get_int(config, "r"));
  if (made.rank_ < 1 || made.rank_ > kMaxRank)
    return fail(ErrorCode::kInvalid, "r is {}, 1 to {} is possible", made.rank_, kMaxRank);
  TRY(made.alpha_, json::get_double(config, "lora_alpha"));
  if (!std::isfinite(made.alpha_))
    return fail(ErrorCode::kInvalid, "lora_alpha is no finite number");
  TRY(made.by_root_, json::get_bool_or(config, "use_rslora", false));
  const json::value* targets = json::find(config, "target_modules");
  if (targets == nullptr) return fail(ErrorCode::kInvalid, "target_modules is missing");
  TRY(made.targets_, ModuleChoice::parse("target_modules", *targets, true));
  for (const std::string_view embedding : kEmbeddings) {
    const std::string module = fmt::format("model.{}", embedding);
    TRY(const bool chosen, made.targets_->is_list() ? made.targets_->chooses(module) : false);
    if (chosen)
      return fail(ErrorCode::kUnsupported,
                  "target_modules names '{}': adapters of embeddings are not supported", embedding);
  }
  if (const json::value* excluded = json::find(config, "exclude_modules");
      excluded != nullptr && !says_nothing(*excluded)) {
    TRY(made.excluded_, ModuleChoice::parse("exclude_modules", *excluded, false));
  }
  if (const json::value* layers = json::find(config, "layers_to_transform");
      layers != nullptr && !says_nothing(*layers)) {
    TRY(made.layers_, layers_of(*layers));
  }
  for (const auto& [name, into] :
       {std::pair{"rank_pattern", &made.ranks_}, std::pair{"alpha_pattern", &made.alphas_}}) {
    const json::value* numbers = json::find(config, name);
    if (numbers == nullptr || says_nothing(*numbers)) continue;
    const auto* members = numbers->if_object();
    if (members == nullptr)
      return fail(ErrorCode::kInvalid, "{} {} is no object", name, json::shown(*numbers));
    TRY(*into, ModuleValues::parse(name, *members, time));
  }
  return made;
}

Result<bool> LoraConfig::chooses(std::string_view module) const {
  if (module.size() > kMaxModuleName)
    return fail(ErrorCode::kTooLarge, "a module's name of {} bytes, the limit is {}: {}...",
                module.size(), kMaxModuleName, module.substr(0, 64));
  TRY_DO(time_.check());
  if (excluded_) {
    TRY(const bool excluded, excluded_->chooses(module));
    if (excluded) return false;
  }
  TRY(const bool chosen, targets_->chooses(module));
  if (!chosen) return false;
  // An expression says itself which layers it means.
  if (!layers_ || !targets_->is_list()) return true;
  const auto layer = layer_of(module);
  return layer && std::ranges::find(*layers_, *layer) != layers_->end();
}

Result<double> LoraConfig::number_of(const std::optional<ModuleValues>& own, double all,
                                     std::string_view module) const {
  if (!own) return all;
  auto number = own->of(module, all, time_);
  if (!number)
    return fail_within(&own == &ranks_ ? "rank_pattern" : "alpha_pattern",
                       std::move(number).error());
  return number;
}

Result<std::int64_t> LoraConfig::rank(std::string_view module) const {
  TRY(const double rank, number_of(ranks_, static_cast<double>(rank_), module));
  if (rank < 1 || rank > static_cast<double>(kMaxRank) || rank != std::trunc(rank))
    return fail(ErrorCode::kInvalid,
                "module '{}' has rank {} by rank_pattern, a whole number of 1 to {} is possible",
                module, rank, kMaxRank);
  return static_cast<std::int64_t>(rank);
}

Result<double> LoraConfig::scale(std::string_view module) const {
  TRY(const std::int64_t whole_rank, rank(module));
  const auto r = static_cast<double>(whole_rank);
  TRY(const double alpha, number_of(alphas_, alpha_, module));
  return alpha / (by_root_ ? std::sqrt(r) : r);
}

std::optional<std::int64_t> layer_of(std::string_view module) {
  std::vector<std::string_view> names;
  for (std::size_t begin = 0; begin <= module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    names.push_back(module.substr(begin, end - begin));
    begin = end + 1;
  }
  for (std::size_t i = names.size(); i-- > 0;) {
    if (i < 2 || i + 1 >= names.size()) continue;
    std::int64_t layer = 0;
    const char* const end = names[i].data() + names[i].size();
    const auto [at, error] = std::from_chars(names[i].data(), end, layer);
    if (error == std::errc() && at == end) return layer;
  }
  return std::nullopt;
}

}  // namespace saccade
