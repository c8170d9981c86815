#include "engine/speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/json.h"

namespace saccade {
namespace {

constexpr double kMemory = 1.0 / 8;  // share of the latest guess in the rate
// Of the price: below it guessing goes on once it has begun, and begins only above it.
constexpr double kBegins = 1.5;

// Rows of drafts have to fit a step beside others, and n-grams an index.
constexpr std::int64_t kMostTokens = 32;
constexpr std::int64_t kMostNgram = 16;

constexpr std::string_view kExample =
    R"({"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2})";

// 0: not given.
Result<std::int64_t> count_of(const json::object& from, std::string_view name, std::int64_t most) {
  if (json::find(from, name) == nullptr) return 0;
  TRY(const std::int64_t value, json::get_int(from, name));
  if (value >= 1 && value <= most) return value;
  return fail(ErrorCode::kInvalid, "{} is {}, allowed 1 to {}", name, value, most);
}

Result<void> check_method(const json::object& from) {
  TRY(const std::string method, json::get_string_or(from, "method", ""));
  if (json::find(from, "model") != nullptr && method != "ngram") {
    return fail(ErrorCode::kUnsupported,
                "a draft model is not supported: tokens are guessed from the text itself; give {}",
                kExample);
  }
  if (method == "ngram") return {};
  return fail(ErrorCode::kUnsupported, "method \"{}\" is not supported: give {}", method, kExample);
}

Result<void> check_names(const json::object& from) {
  for (const auto& member : from) {
    const std::string_view name = member.key();
    if (name == "method" || name == "num_speculative_tokens" || name == "prompt_lookup_max" ||
        name == "prompt_lookup_min" || member.value().is_null())
      continue;
    // What the ngram method has no use for, as vLLM's own examples write it.
    if (name == "model" && member.value().is_string() &&
        (member.value().as_string() == "ngram" || member.value().as_string() == "[ngram]"))
      continue;
    return fail(ErrorCode::kUnsupported, "member \"{}\" is not supported: give {}", name, kExample);
  }
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
  TRY_DO(check_method(from));
  TRY_DO(check_names(from));
  TRY(settings.most_tokens, count_of(from, "num_speculative_tokens", kMostTokens));
  if (settings.most_tokens == 0) {
    return fail(ErrorCode::kInvalid, "num_speculative_tokens is missing: give {}", kExample);
  }
  TRY(settings.shortest, count_of(from, "prompt_lookup_min", kMostNgram));
  TRY(settings.longest, count_of(from, "prompt_lookup_max", kMostNgram));
  // vLLM's: one that is not given is the other, and both are 5.
  constexpr std::int64_t kUsual = 5;
  if (settings.longest == 0) settings.longest = settings.shortest > 0 ? settings.shortest : kUsual;
  if (settings.shortest == 0) settings.shortest = settings.longest;
  if (settings.shortest > settings.longest) {
    return fail(ErrorCode::kInvalid, "prompt_lookup_min is {}, over prompt_lookup_max {}",
                settings.shortest, settings.longest);
  }
  return settings;
}

void Speculator::next(std::span<const TokenId> tokens, double row_price,
                      std::vector<TokenId>& draft) {
  compare(tokens);
  known_ = static_cast<std::int64_t>(tokens.size());
  lookup_.read(tokens);
  draft.clear();
  if (!lookup_.guess(tokens, settings_.most_tokens, guess_)) return;
  const std::int64_t count = worth(row_price);
  draft.assign(guess_.begin(), guess_.begin() + static_cast<std::ptrdiff_t>(count));
}

// What came against what was guessed, up to the first that is wrong: the others said nothing.
void Speculator::compare(std::span<const TokenId> tokens) {
  const auto came = tokens.subspan(std::min(static_cast<std::size_t>(known_), tokens.size()));
  const std::size_t count = std::min(came.size(), guess_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const bool hit = came[i] == guess_[i];
    rate_ += ((hit ? 1.0 : 0.0) - rate_) * kMemory;
    if (!hit) return;
  }
}

// Rows whose chance to bring a token is above their price.
std::int64_t Speculator::worth(double row_price) {
  on_ = rate_ > (on_ ? row_price : kBegins * row_price);
  if (!on_) return 0;
  std::int64_t count = 0;
  for (double chance = rate_; count < settings_.most_tokens && chance > row_price; chance *= rate_)
    ++count;
  return count;
}

}  // namespace saccade
