#include "engine/sampler.h"

#include <bit>
#include <set>
#include <utility>

namespace saccade {

SamplerState::SamplerState(const SamplingParams& params, std::span<const TokenId> prompt,
                           std::vector<TokenId> eos, std::uint64_t seed, Device& device)
    : params_(params), eos_(std::move(eos)), seed_(seed) {
  const bool penalised = params.repetition_penalty != 1.0 || params.frequency_penalty != 0 ||
                         params.presence_penalty != 0;
  if (penalised) counts_ = device.count_tokens(prompt);
}

SamplingRow SamplerState::next() {
  SamplingRow row;
  if (asked_ < params_.min_tokens) row.masked = {eos_, *params_.stop_token_ids};
  row.bias = *params_.logit_bias;
  row.counts = counts_.get();
  row.repetition_penalty = static_cast<float>(params_.repetition_penalty);
  row.frequency_penalty = static_cast<float>(params_.frequency_penalty);
  row.presence_penalty = static_cast<float>(params_.presence_penalty);
  row.temperature = params_.temperature;
  row.min_p = params_.min_p;
  row.top_k = params_.top_k;
  row.top_p = params_.top_p;
  // Counter-based: the draw of token i needs no draw before it.
  row.draw = hash_combine(seed_, static_cast<std::uint64_t>(asked_));
  if (params_.logprobs) row.alternatives = *params_.logprobs;
  ++asked_;
  return row;
}

void SamplerState::hold(SamplingRow& row, std::span<const std::uint32_t> allowed) {
  row.allowed = allowed;
  std::set<TokenId> masked;
  for (const auto& list : row.masked) {
    for (const TokenId token : list) {
      const auto word = static_cast<std::size_t>(token) / 32;
      if (word < allowed.size() && (allowed[word] >> token % 32 & 1u) != 0) masked.insert(token);
    }
  }
  if (masked.empty()) return;
  std::size_t left = 0;
  for (const std::uint32_t word : allowed) left += static_cast<std::size_t>(std::popcount(word));
  if (left == masked.size()) row.masked = {};
}

}  // namespace saccade
