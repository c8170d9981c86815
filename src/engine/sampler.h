// What sampling has to remember of one sequence: from its parameters to a row of ops/sampling.h.
//
// A draw depends on the request's seed and on how many tokens it has generated, on nothing else:
// the same request gives the same answer in any batch, chunking and after any preemption.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "ops/device.h"

namespace saccade {

// Engine thread.
class SamplerState {
 public:
  // `eos`: they and the stop token ids are masked until min_tokens have been generated. Refers to
  // `params`.
  SamplerState(const SamplingParams& params, std::span<const TokenId> prompt,
               std::vector<TokenId> eos, std::uint64_t seed, Device& device);

  // The next token's row, without its place among the logits; it refers to this. Each call is for
  // one token more.
  SamplingRow next();
  // Lets the row's token be one of `allowed` alone (bits by token), the grammar's. Where that
  // leaves nothing before min_tokens, the grammar goes first.
  static void hold(SamplingRow& row, std::span<const std::uint32_t> allowed);

 private:
  const SamplingParams& params_;
  std::vector<TokenId> eos_;
  std::uint64_t seed_;
  std::int64_t asked_ = 0;               // tokens that next() has been called for
  std::unique_ptr<TokenCounts> counts_;  // null: no penalties
};

}  // namespace saccade
