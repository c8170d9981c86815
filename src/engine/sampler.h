// From one row of logits to a token, in vLLM's order: minimum length, logit bias, penalties,
// temperature, min-p, top-k, top-p. Stateless: a draw depends on (seed, index of the token) alone,
// so recomputing a sequence never changes it.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request.h"
#include "ops/backend.h"

namespace saccade {

// What the penalties look at.
struct TokenHistory {
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;
};

// Scratch for rows of up to `vocab` logits, reused by every call. One thread.
class Sampler {
 public:
  explicit Sampler(std::int64_t vocab);

  // logits: [vocab], may be changed. `stats` are those of the unchanged row. `banned` (eos and stop
  // ids before min_tokens) are never chosen. The logprobs, when params ask for them, are of the
  // unchanged logits, as vLLM's default raw_logprobs.
  struct Choice {
    TokenId token = 0;
    TokenLogprob logprob;  // filled when params.logprobs is set
  };
  Choice sample(std::span<float> logits, const RowStats& stats, const SamplingParams& params,
                const TokenHistory& history, std::span<const TokenId> banned, std::uint64_t seed);

 private:
  struct Candidate {
    float logit;
    TokenId token;
  };
  void apply_penalties(std::span<float> logits, const SamplingParams& params,
                       const TokenHistory& history);
  TokenId draw(std::span<const float> logits, const SamplingParams& params, double uniform);
  void keep_top_k(std::int64_t k);
  void keep_top_p(double p);

  std::vector<Candidate> candidates_;
  std::vector<float> weights_;
  std::unordered_map<TokenId, std::int32_t> counts_;
};

// The most likely `count` tokens, most likely first, lowest id first among equals.
std::vector<std::pair<TokenId, float>> top_tokens(std::span<const float> logits, int count);

}  // namespace saccade
