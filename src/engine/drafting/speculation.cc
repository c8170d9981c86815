#include "engine/drafting/speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/json.h"

namespace saccade {
namespace {

// Of the price: below it drafting goes on once it has begun, and begins only above it.
constexpr double kBegins = 1.5;

// Rows of drafts have to fit a step beside others, and n-grams an index.
constexpr std::int64_t kMaxTokens = 32;
constexpr std::int64_t kMaxNgram = 16;

constexpr std::string_view kExample =
    R"({"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2})"
    R"( or {"model":"DIR","num_speculative_tokens":4})";

constexpr std::array<std::string_view, 2> kOfNgrams = {"prompt_lookup_max", "prompt_lookup_min"};
constexpr std::array<std::string_view, 5> kOfDrafts = {"model", "revision", "quantization",
                                                       "max_model_len", "kv_cache_bytes"};

// 0: not given.
Result<std::int64_t> count_of(const json::object& from, std::string_view name, std::int64_t most) {
  if (json::find(from, name) == nullptr) return 0;
  TRY(const std::int64_t value, json::get_int(from, name));
  if (value >= 1 && value <= most) return value;
  return fail(ErrorCode::kInvalid, "{} is {}, allowed 1 to {}", name, value, most);
}

// The method, as vLLM's own examples had it before there was one.
bool names_ngrams(std::string_view model) { return model == "ngram" || model == "[ngram]"; }

// "ngram" or "draft_model".
Result<std::string_view> method_of(const json::object& from) {
  TRY(const std::string method, json::get_string_or(from, "method", ""));
  TRY(const std::string model, json::get_string_or(from, "model", ""));
  if (method == "ngram" || (method.empty() && names_ngrams(model))) return "ngram";
  if (method == "draft_model" || (method.empty() && !model.empty())) return "draft_model";
  return fail(ErrorCode::kUnsupported, "method \"{}\" is not supported: give {}", method, kExample);
}

Result<void> check_names(const json::object& from, std::string_view method) {
  const std::span<const std::string_view> known =
      method == "ngram" ? std::span<const std::string_view>(kOfNgrams) : kOfDrafts;
  for (const auto& member : from) {
    const std::string_view name = member.key();
    if (name == "method" || name == "num_speculative_tokens" || member.value().is_null() ||
        std::ranges::find(known, name) != known.end())
      continue;
    // What the ngram method has no use for.
    if (method == "ngram" && name == "model" && member.value().is_string() &&
        names_ngrams(member.value().as_string()))
      continue;
    return fail(ErrorCode::kUnsupported, "member \"{}\" is not supported with method {}: give {}",
                name, method, kExample);
  }
  return {};
}

Result<void> read_ngrams(const json::object& from, SpeculationSettings& settings) {
  TRY(settings.shortest, count_of(from, "prompt_lookup_min", kMaxNgram));
  TRY(settings.longest, count_of(from, "prompt_lookup_max", kMaxNgram));
  // vLLM's: one that is not given is the other, and both are 5.
  constexpr std::int64_t kUsual = 5;
  if (settings.longest == 0) settings.longest = settings.shortest > 0 ? settings.shortest : kUsual;
  if (settings.shortest == 0) settings.shortest = settings.longest;
  if (settings.shortest <= settings.longest) return {};
  return fail(ErrorCode::kInvalid, "prompt_lookup_min is {}, over prompt_lookup_max {}",
              settings.shortest, settings.longest);
}

Result<void> read_draft(const json::object& from, DraftSettings& draft) {
  TRY(draft.model, json::get_string_or(from, "model", ""));
  if (draft.model.empty()) return fail(ErrorCode::kInvalid, "model is missing: give {}", kExample);
  TRY(draft.revision, json::get_string_or(from, "revision", ""));
  TRY(draft.quantization, json::get_string_or(from, "quantization", ""));
  TRY(draft.max_model_len, count_of(from, "max_model_len", std::int64_t{1} << 32));
  TRY(draft.kv_cache_bytes, count_of(from, "kv_cache_bytes", std::int64_t{1} << 48));
  return {};
}

}  // namespace

Result<SpeculationSettings> parse_speculative_config(std::string_view text) {
  TRY(const json::value parsed, json::parse(text));
  if (!parsed.is_object()) {
    return fail(ErrorCode::kInvalid, "{}, an object is needed: give {}", json::kind_name(parsed),
                kExample);
  }
  const json::object& from = parsed.get_object();
  SpeculationSettings settings;
  if (from.empty()) return settings;
  TRY(const std::string_view method, method_of(from));
  TRY_DO(check_names(from, method));
  TRY(settings.max_tokens, count_of(from, "num_speculative_tokens", kMaxTokens));
  if (settings.max_tokens == 0) {
    return fail(ErrorCode::kInvalid, "num_speculative_tokens is missing: give {}", kExample);
  }
  if (method == "ngram") {
    TRY_DO(read_ngrams(from, settings));
  } else {
    TRY_DO(read_draft(from, settings.draft));
  }
  return settings;
}

void Speculator::next(std::span<const TokenId> tokens, double row_price,
                      std::vector<TokenId>& draft) {
  record_.came(tokens);
  lookup_.read(tokens);
  const bool found = lookup_.propose(tokens, settings_.max_tokens, draft);
  record_.proposed(draft);
  if (found) draft.resize(static_cast<std::size_t>(worth(row_price)));
}

// Rows whose chance to bring a token is above their price.
std::int64_t Speculator::worth(double row_price) {
  on_ = rate() > (on_ ? row_price : kBegins * row_price);
  if (!on_) return 0;
  std::int64_t count = 0;
  for (double chance = rate(); count < settings_.max_tokens && chance > row_price; chance *= rate())
    ++count;
  return count;
}

}  // namespace saccade
