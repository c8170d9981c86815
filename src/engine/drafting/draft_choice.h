// How many tokens a draft model drafts for each sequence, and when it reads along only to see how
// often it would be right. Pure; one thread.
//
// All prices are in tokens: those that the model's own steps give in the time that something takes.
// A draft token is won where it is accepted; it costs a row of the model's next step, and a step of
// the draft model, which all sequences that are drafted for at once share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/prompts/prompt.h"

namespace saccade {

struct DraftPrices {
  double row = 0;       // of a draft token in the model's step
  double step = 0;      // of the draft model for one sequence
  double sequence = 0;  // what each sequence more adds to it
};

// How often draft tokens are accepted lately, each one if those before it are.
class AcceptanceRate {
 public:
  // memory: the latest token's share.
  explicit AcceptanceRate(double memory, double begin = 0.5) : memory_(memory), rate_(begin) {}
  void observe(bool hit) { rate_ += ((hit ? 1.0 : 0.0) - rate_) * memory_; }
  double rate() const { return rate_; }

 private:
  double memory_;
  double rate_;
};

// What is known of one sequence's drafts.
class DraftRecord {
 public:
  // Of what its answer takes, the part that reading along may take while nothing is drafted: what a
  // draft model that does not pay costs at most. Each token that comes saves so much, and reading
  // begins where the savings reach its price.
  static constexpr double kReadingShare = 0.02;

  // rate: that of sequences lately. known: tokens.
  DraftRecord(double rate, std::int64_t known) : rate_(kMemory, rate), known_(known) {}

  double rate() const { return rate_.rate(); }
  // More tokens are known: what was drafted of them is compared, for this sequence and for `all`,
  // up to the first that is wrong: the others say nothing.
  void came(std::span<const TokenId> tokens, AcceptanceRate* all = nullptr);
  // `draft` follows the tokens that are known; empty: nothing was drafted.
  void proposed(std::span<const TokenId> draft) { draft_.assign(draft.begin(), draft.end()); }
  // What would have been proposed of a token that had come already.
  void observe(bool hit, AcceptanceRate* all);

  // Whether to read along, where reading what is unread costs `price`; once begun until has_read().
  bool reads(double price);
  void has_read();

 private:
  static constexpr double kMemory = 1.0 / 8;

  AcceptanceRate rate_;
  std::vector<TokenId> draft_;  // of the tokens from known_ on
  std::int64_t known_;
  double saved_ = 0;  // tokens' worth
  bool reading_ = false;
};

class DraftChoice {
 public:
  struct Candidate {
    double rate = 0;
    std::int64_t most = 0;  // tokens that may be drafted for it
  };

  // max_tokens: for one sequence; max_rows: for all together.
  DraftChoice(std::int64_t max_tokens, std::int64_t max_rows)
      : max_tokens_(max_tokens), max_rows_(max_rows) {}

  // [of] tokens to draft for each. Each further token is drafted for those whose chance to win it
  // is above what it adds, while all of these win more than the draft's step takes. Having stopped
  // it begins again only well above the price.
  std::vector<std::int64_t> choose(std::span<const Candidate> of, const DraftPrices& prices);

 private:
  std::int64_t max_tokens_;
  std::int64_t max_rows_;
  bool on_ = true;
};

}  // namespace saccade
