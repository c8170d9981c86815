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

  // The row of the answer's token `number`, from 0, without its place among the logits; it refers
  // to this. `generated`: all before it, where the parameters look back; else it is not read.
  // `ahead`: how many of them are draft tokens; rows that differ in it are good together.
  SamplingRow row(std::int64_t number, std::span<const TokenId> generated, std::size_t ahead = 0);
  // Lets the row's token be one of `allowed` alone (bits by token), the grammar's, of those that
  // the request allows. Where that leaves nothing before min_tokens, the grammar goes first.
  void hold(SamplingRow& row, std::span<const std::uint32_t> allowed);
  // Of the tokens that a grammar lets come, whether the request's allowed_token_ids and bad_words
  // leave any to the row that was made last.
  bool leaves_any(std::span<const std::uint32_t> of) const;

 private:
  const SamplingParams& params_;
  std::vector<TokenId> ends_;  // the model's, and those of the request
  std::uint64_t seed_;
  std::unique_ptr<TokenCounts> counts_;  // null: no penalties
  std::vector<TokenId> bad_;             // bad words of one token
  // [draft tokens] the same and, while parameters look back, the ends of words that would be
  // complete.
  std::vector<std::vector<TokenId>> bad_now_;
  std::vector<std::uint32_t> both_;  // what the request and its grammar allow
};

}  // namespace saccade
