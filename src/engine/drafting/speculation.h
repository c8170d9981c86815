// How many tokens of a sequence are worth drafting. Draft tokens are rows of the next step
// (PlannedRows::drafts); those that sampling confirms are tokens won, the others are time lost.
//
// A draft token's row pays where the tokens that it brings on average are more than the step gives
// in the time that the row adds. How often they are accepted is known for each sequence whether or
// not they were computed: what was proposed is compared with what came. So drafting stops by itself
// where a text does not repeat, begins again where it does, and costs only the looking up
// meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/drafting/draft_choice.h"
#include "engine/drafting/prompt_lookup.h"

namespace saccade {

// A second, smaller model (draft_model.h).
struct DraftSettings {
  std::string model;         // folder, or ORG/NAME; empty: the text itself is looked up
  std::string revision;      // of ORG/NAME on the hub; empty: main
  std::string quantization;  // as --quantization, of this model alone
  // Longer sequences get no drafts; 0: as long as both models take.
  std::int64_t max_model_len = 0;
  std::int64_t kv_cache_bytes = 0;  // of its own keys and values; 0: chosen at start
  bool operator==(const DraftSettings&) const = default;
};

struct SpeculationSettings {
  std::int64_t max_tokens = 0;  // drafted at once; 0: nothing is drafted
  std::int64_t shortest = 0;    // n-gram that is looked up, tokens
  std::int64_t longest = 0;
  DraftSettings draft = {};
  bool operator==(const SpeculationSettings&) const = default;
};

// The JSON of vLLM's --speculative-config: num_speculative_tokens, and for method "ngram"
// prompt_lookup_max and prompt_lookup_min, for "draft_model" the members of DraftSettings. Where no
// method is given a model says it. Errors name the member and say what to give instead.
Result<SpeculationSettings> parse_speculative_config(std::string_view json);

// Of one sequence. Pure; one thread.
class Speculator {
 public:
  explicit Speculator(const SpeculationSettings& settings)
      : settings_(settings), lookup_(settings.shortest, settings.longest) {}

  // After tokens have become known, all of which `tokens` are: what is worth computing behind them.
  // row_price: tokens that a step gives in the time that a row more adds to it; 0: not known.
  void next(std::span<const TokenId> tokens, double row_price, std::vector<TokenId>& draft);

  // How likely a draft token is to be accepted if those before it are, as far as it is known.
  double rate() const { return record_.rate(); }

 private:
  std::int64_t worth(double row_price);

  SpeculationSettings settings_;
  PromptLookup lookup_;
  DraftRecord record_{0.5, 0};
  bool on_ = true;
};

}  // namespace saccade
