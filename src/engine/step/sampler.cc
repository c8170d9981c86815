#include "engine/step/sampler.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace saccade {

SamplerState::SamplerState(const SamplingParams& params, std::span<const TokenId> prompt,
                           std::vector<TokenId> eos, std::uint64_t seed, Device& device)
    : params_(params), ends_(std::move(eos)), seed_(seed) {
  ends_.insert(ends_.end(), params.stop_token_ids->begin(), params.stop_token_ids->end());
  const bool penalised = params.repetition_penalty != 1.0 || params.frequency_penalty != 0 ||
                         params.presence_penalty != 0;
  if (penalised) counts_ = device.count_tokens(prompt);
  for (const std::vector<TokenId>& word : *params.bad_words) {
    if (word.size() == 1) bad_.push_back(word.front());
  }
}

SamplingRow SamplerState::row(std::int64_t number, std::span<const TokenId> generated,
                              std::size_t ahead) {
  SamplingRow row;
  if (number < params_.min_tokens) row.masked[0] = ends_;
  // Nothing else reads the list while parameters look back: one step is launched at a time.
  if (bad_now_.size() <= ahead) bad_now_.resize(ahead + 1);
  std::vector<TokenId>& bad = bad_now_[ahead];
  bad = bad_;
  for (const std::vector<TokenId>& word : *params_.bad_words) {
    const std::span begun = std::span(word).first(word.size() - 1);
    if (!begun.empty() && begun.size() <= generated.size() &&
        std::ranges::equal(begun, generated.last(begun.size())))
      bad.push_back(word.back());
  }
  row.masked[1] = bad;
  row.allowed = *params_.allowed_tokens;
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
  row.draw = hash_combine(seed_, static_cast<std::uint64_t>(number));
  if (params_.logprobs) row.alternatives = *params_.logprobs;
  return row;
}

void SamplerState::hold(SamplingRow& row, std::span<const std::uint32_t> allowed) {
  if (!row.allowed.empty()) {
    both_.assign(allowed.begin(), allowed.end());
    both_.resize(std::min(both_.size(), row.allowed.size()));
    for (std::size_t i = 0; i < both_.size(); ++i) both_[i] &= row.allowed[i];
    allowed = both_;
  }
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
  if (left == masked.size()) row.masked[0] = {};
}

bool SamplerState::leaves_any(std::span<const std::uint32_t> of) const {
  std::vector<std::uint32_t> left(of.begin(), of.end());
  const auto& own = *params_.allowed_tokens;
  if (!own.empty()) {
    left.resize(std::min(left.size(), own.size()));
    for (std::size_t i = 0; i < left.size(); ++i) left[i] &= own[i];
  }
  if (!bad_now_.empty()) {
    for (const TokenId token : bad_now_.front()) {
      const auto word = static_cast<std::size_t>(token) / 32;
      if (word < left.size()) left[word] &= ~(1U << token % 32);
    }
  }
  return std::ranges::any_of(left, [](std::uint32_t word) { return word != 0; });
}

}  // namespace saccade
