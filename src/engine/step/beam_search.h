// Which beginnings of an answer are gone on with, and which answers are the best: vLLM's beam
// search. In each step every beam gives its 2 x width likeliest tokens; those that end an answer
// complete one, and the `width` likeliest of the others are the next step's beams. At the end the
// best of all are given, by the sum of their tokens' log-probabilities over (tokens of prompt and
// answer, an ending one not counted) ^ length_penalty.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace saccade {

struct BeamSettings {
  std::size_t width = 1;
  std::int64_t max_tokens = 16;
  std::int64_t prompt_tokens = 1;
  double length_penalty = 1;
  std::vector<TokenId> ends;  // tokens that end an answer; empty: none does
  bool keep_end = false;      // an ending token is one of the answer's
  int listed = 0;             // of TokenLogprob::top
};

struct Beam {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;  // of each of them
  double logprob = 0;                  // of all, and of one that ended it
  FinishReason finish = FinishReason::kNone;
};

// Pure. One thread.
class BeamSearch {
 public:
  using Likeliest = std::vector<std::pair<TokenId, float>>;  // log-probabilities, likeliest first

  explicit BeamSearch(BeamSettings settings);

  // Beams whose next tokens are wanted; none once the search is over.
  std::span<const Beam> live() const { return live_; }
  // Tokens that each of them has to give, of those that there are.
  std::size_t wanted() const { return 2 * settings_.width; }
  // One a live beam, in their order.
  void advance(std::span<const Likeliest> likeliest);
  // Once it is over: at most `width`, best first, each with how it finished.
  std::vector<Beam> best() const;

 private:
  double score(double logprob, std::int64_t tokens) const;
  bool nothing_better_can_come() const;

  BeamSettings settings_;
  std::int64_t steps_ = 0;
  std::vector<Beam> live_;
  struct Complete {
    Beam beam;
    double score = 0;
  };
  std::vector<Complete> complete_;  // best first, the earlier of equals; at most `width`
  void keep(Beam&& beam, std::int64_t tokens);
};

}  // namespace saccade
