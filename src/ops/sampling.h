// What a device is told of how one row's token is chosen, and what it says of the choice. Semantics
// and order are vLLM's: allowed tokens, masked ones, bias, penalties (repetition, frequency,
// presence), temperature, min_p, top_k, top_p, one draw. Log-probabilities are those of the raw
// logits, before any of these.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace saccade {

// How often a sequence has generated each token, and which ones its prompt has: what penalties go
// by. Kept by the device, since the next step's penalties count a token before the host knows it.
class TokenCounts {
 public:
  TokenCounts() = default;
  virtual ~TokenCounts() = default;
  TokenCounts(const TokenCounts&) = delete;
  TokenCounts& operator=(const TokenCounts&) = delete;
};

// One row. Tokens outside the vocabulary have no logit, and are passed over.
struct SamplingRow {
  std::int64_t row = 0;  // of the logits
  // Row of SampleArgs::last_tokens where the token is left too; -1: nowhere.
  std::int32_t slot = -1;
  std::span<const std::uint32_t> allowed = {};  // bit t % 32 of word t / 32: t may come; empty: all
  // Tokens that must not come, in as many lists as they happen to be kept in.
  std::array<std::span<const std::int32_t>, 2> masked = {};
  std::span<const std::pair<std::int32_t, float>> bias = {};
  // Null: no penalties. Counts the chosen token when the work runs; outlives that.
  TokenCounts* counts = nullptr;
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  double temperature = 0;  // below kGreedyTemperature the largest logit wins, the first of equals
  double min_p = 0;        // 0: off
  std::int64_t top_k = 0;  // 0 and below: off; what equals the k-th stays
  double top_p = 1;        // 1: off
  std::uint64_t draw = 0;  // decides the draw: of the request's seed and the token's number
  int alternatives = -1;   // most likely tokens wanted beside the chosen one; -1: no logprob at all
  // A token of the vocabulary, or -1. The row's token is known, nothing is chosen or counted: what
  // is asked for is its log-probability and its rank. All that steers a choice is passed over.
  std::int32_t given = -1;

  // Whether anything can change which logit is the largest.
  bool adjusts() const;
  // Nothing does and the largest wins: the row's statistics decide.
  bool plain_greedy() const;
};

constexpr double kGreedyTemperature = 1e-5;  // what vLLM takes for 0 lies below
constexpr double kLeastTemperature = 0.01;   // what it raises others to

inline bool SamplingRow::adjusts() const {
  return !allowed.empty() || !masked[0].empty() || !masked[1].empty() || !bias.empty() ||
         counts != nullptr;
}

inline bool SamplingRow::plain_greedy() const {
  return temperature < kGreedyTemperature && !adjusts();
}

// The choice. Failed where the logits are not numbers or no token is left.
struct SampledToken {
  std::int32_t token = 0;
  float logprob = 0;  // where it was asked for
  std::int32_t alternatives = 0;
  std::int32_t failed = 0;
  std::int32_t rank = 0;  // of one that was given: how many tokens are as likely or likelier
};

struct TokenLogit {
  std::int32_t token = 0;
  float logprob = 0;
};

}  // namespace saccade
