// How many tokens of a sequence are worth guessing ahead. Guessed tokens are rows of the next step
// (PlannedRows::drafts); those that sampling confirms are tokens won, the others are time lost.
//
// A row of a guess pays where the tokens that it brings on average are more than the step gives in
// the time that the row adds. How often guesses come true is known for each sequence whether or not
// they were computed: what was guessed is compared with what came. So guessing stops by itself
// where a text does not repeat, begins again where it does, and costs only the looking up
// meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/prompt_lookup.h"

namespace saccade {

struct SpeculationSettings {
  std::int64_t most_tokens = 0;  // guessed at once; 0: nothing is guessed
  std::int64_t shortest = 0;     // n-gram that is looked up, tokens
  std::int64_t longest = 0;
  bool operator==(const SpeculationSettings&) const = default;
};

// The JSON of vLLM's --speculative-config: method "ngram" with num_speculative_tokens,
// prompt_lookup_max and prompt_lookup_min. Errors name the member and say what to give instead.
Result<SpeculationSettings> parse_speculative_config(std::string_view json);

// Of one sequence. Pure; one thread.
class Speculator {
 public:
  explicit Speculator(const SpeculationSettings& settings)
      : settings_(settings), lookup_(settings.shortest, settings.longest) {}

  // After tokens have become known, all of which `tokens` are: what is worth computing behind them.
  // row_price: tokens that a step gives in the time that a row more adds to it; 0: not known.
  void next(std::span<const TokenId> tokens, double row_price, std::vector<TokenId>& draft);

  // How likely a guessed token is to come if those before it do, as far as it is known.
  double rate() const { return rate_; }

 private:
  void compare(std::span<const TokenId> tokens);
  std::int64_t worth(double row_price);

  SpeculationSettings settings_;
  PromptLookup lookup_;
  std::vector<TokenId> guess_;  // of the tokens from known_ on
  std::int64_t known_ = 0;
  double rate_ = 0.5;
  bool on_ = true;
};

}  // namespace saccade
