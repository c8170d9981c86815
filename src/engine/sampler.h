// From a row of logits to a token, with vLLM's semantics and order: min_tokens, logit_bias,
// penalties (repetition, frequency, presence), temperature, min_p, top_k, top_p, draw.
// Log-probabilities are those of the raw logits, before any of these.
//
// A draw depends on the request's seed and on how many tokens it has generated, on nothing else:
// the same request gives the same answer in any batch, chunking and after any preemption.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace saccade {

// What sampling has to remember of one sequence.
class SamplerState {
 public:
  // `end_tokens`: eos; they and the stop token ids are masked until min_tokens have been generated.
  SamplerState(const SamplingParams& params, std::span<const TokenId> prompt,
               std::vector<TokenId> end_tokens, std::uint64_t seed);

  void append(TokenId token);
  std::int64_t generated() const { return generated_; }
  const SamplingParams& params() const { return params_; }
  // Nothing changes the logits and the largest wins: the row's statistics decide alone.
  bool plain_greedy() const;
  bool greedy() const;

 private:
  friend class Sampler;
  bool penalised() const;
  SamplingParams params_;
  std::vector<TokenId> end_tokens_;
  std::uint64_t seed_;
  std::int64_t generated_ = 0;
  std::unordered_map<TokenId, std::int32_t> output_counts_;  // when penalised
  std::vector<TokenId> prompt_tokens_;                       // distinct; when penalised
};

struct Sampled {
  TokenId token = 0;
  TokenLogprob logprob;  // when asked for
  bool failed = false;   // the logits are not numbers
};

// Scratch of one worker. One thread.
class Sampler {
 public:
  explicit Sampler(std::int64_t vocab);
  // `logits` is not changed. `stats`: of that row.
  Sampled pick(std::span<const float> logits, const RowStats& stats, const SamplerState& state);

 private:
  struct Candidate {
    float logit;
    TokenId token;
  };
  void adjust(const SamplerState& state);
  TokenId draw(const SamplerState& state);
  TokenId draw_among_all(float floor, double uniform);
  TokenId draw_among(std::span<const Candidate> candidates, double uniform) const;
  std::size_t keep_top_k(std::int64_t top_k, float floor);
  std::size_t keep_top_p(double top_p, std::size_t count, double total);
  void fill_logprob(std::span<const float> logits, const RowStats& stats, int alternatives,
                    Sampled& sampled);

  std::vector<float> logits_;
  std::vector<Candidate> candidates_;
};

}  // namespace saccade
