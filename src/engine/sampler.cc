#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/rng.h"

namespace saccade {
namespace {

constexpr double kGreedyBelow = 1e-5;       // temperatures that vLLM takes for 0
constexpr double kLeastTemperature = 0.01;  // and raises to
constexpr float kMasked = -std::numeric_limits<float>::infinity();

// e^x for x <= 0 to about 2 ulp, without branches, so that a loop over a vocabulary vectorises.
inline float fast_exp(float x) {
  x = std::max(x, -87.0f);
  // 2^n by adding 1.5 * 2^23: the sum's low bits are n rounded to nearest.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

}  // namespace

SamplerState::SamplerState(const SamplingParams& params, std::span<const TokenId> prompt,
                           std::vector<TokenId> end_tokens, std::uint64_t seed)
    : params_(params), end_tokens_(std::move(end_tokens)), seed_(seed) {
  if (!penalised()) return;
  prompt_tokens_.assign(prompt.begin(), prompt.end());
  std::sort(prompt_tokens_.begin(), prompt_tokens_.end());
  prompt_tokens_.erase(std::unique(prompt_tokens_.begin(), prompt_tokens_.end()),
                       prompt_tokens_.end());
}

bool SamplerState::penalised() const {
  return params_.repetition_penalty != 1.0 || params_.frequency_penalty != 0 ||
         params_.presence_penalty != 0;
}

bool SamplerState::greedy() const { return params_.temperature < kGreedyBelow; }

bool SamplerState::plain_greedy() const {
  return greedy() && !penalised() && params_.logit_bias->empty() &&
         generated_ >= params_.min_tokens;
}

void SamplerState::append(TokenId token) {
  ++generated_;
  if (penalised()) ++output_counts_[token];
}

Sampler::Sampler(std::int64_t vocab) : logits_(static_cast<std::size_t>(vocab)) {}

Sampled Sampler::pick(std::span<const float> logits, const RowStats& stats,
                      const SamplerState& state) {
  CHECK(logits.size() == logits_.size(), "{} logits, vocabulary {}", logits.size(), logits_.size());
  Sampled sampled;
  if (!std::isfinite(stats.max) || !std::isfinite(stats.log_sum_exp)) {
    sampled.failed = true;
    return sampled;
  }
  if (state.plain_greedy()) {
    sampled.token = stats.argmax;
  } else {
    std::copy(logits.begin(), logits.end(), logits_.begin());
    adjust(state);
    sampled.token = draw(state);
    if (sampled.token < 0) {
      sampled.failed = true;
      return sampled;
    }
  }
  if (state.params().logprobs) fill_logprob(logits, stats, *state.params().logprobs, sampled);
  return sampled;
}

// All that can change which token is the largest.
void Sampler::adjust(const SamplerState& state) {
  const SamplingParams& params = state.params();
  const auto at = [&](TokenId token) -> float* {
    const auto index = static_cast<std::size_t>(token);
    return token >= 0 && index < logits_.size() ? &logits_[index] : nullptr;
  };
  if (state.generated() < params.min_tokens) {
    const auto mask = [&](const std::vector<TokenId>& tokens) {
      for (const TokenId token : tokens) {
        if (float* logit = at(token)) *logit = kMasked;
      }
    };
    mask(state.end_tokens_);
    mask(*params.stop_token_ids);
  }
  for (const auto& [token, bias] : *params.logit_bias) {
    if (float* logit = at(token)) *logit += bias;
  }
  if (!state.penalised()) return;
  // Penalties of any size leave numbers: the largest there are, and none for what is masked.
  using Limits = std::numeric_limits<float>;
  const auto repetition = static_cast<float>(
      std::clamp<double>(params.repetition_penalty, Limits::min(), Limits::max()));
  const auto repeat = [&](TokenId token) {
    float* logit = at(token);
    if (logit == nullptr || *logit == kMasked) return;
    *logit = std::clamp(*logit > 0 ? *logit / repetition : *logit * repetition, Limits::lowest(),
                        Limits::max());
  };
  if (repetition != 1.0f) {
    for (const TokenId token : state.prompt_tokens_) {
      if (!state.output_counts_.contains(token)) repeat(token);
    }
    for (const auto& [token, count] : state.output_counts_) repeat(token);
  }
  for (const auto& [token, count] : state.output_counts_) {
    if (float* logit = at(token)) {
      *logit -= static_cast<float>(params.frequency_penalty) * static_cast<float>(count);
      *logit -= static_cast<float>(params.presence_penalty);
    }
  }
}

// -1: nothing is left to draw from.
TokenId Sampler::draw(const SamplerState& state) {
  const SamplingParams& params = state.params();
  const auto largest = std::max_element(logits_.begin(), logits_.end());
  if (!std::isfinite(*largest)) return -1;
  if (state.greedy()) return static_cast<TokenId>(largest - logits_.begin());

  // Counter-based: the draw of token i needs no draw before it.
  Rng rng(hash_combine(state.seed_, static_cast<std::uint64_t>(state.generated())));
  const double uniform = rng.uniform();
  // Above 0 at any temperature: what is masked stays so.
  const auto scale = static_cast<float>(std::max<double>(
      1.0 / std::max(params.temperature, kLeastTemperature), std::numeric_limits<float>::min()));
  const float top = *largest;
  for (float& logit : logits_) logit = (logit - top) * scale;
  const float floor = params.min_p > 0 ? static_cast<float>(std::log(params.min_p))
                                       : std::numeric_limits<float>::lowest();

  const auto vocab = static_cast<std::int64_t>(logits_.size());
  const bool by_k = params.top_k > 0 && params.top_k < vocab;
  if (!by_k && params.top_p >= 1) return draw_among_all(floor, uniform);

  std::size_t count = 0;
  double total = 0;
  if (by_k) {
    count = keep_top_k(params.top_k, floor);
    for (std::size_t i = 0; i < count; ++i) total += fast_exp(candidates_[i].logit);
  } else {
    candidates_.clear();
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (logits_[i] < floor) continue;
      total += fast_exp(logits_[i]);
      candidates_.push_back({logits_[i], static_cast<TokenId>(i)});
    }
    count = candidates_.size();
  }
  if (params.top_p < 1) count = keep_top_p(params.top_p, count, total);
  return draw_among(std::span(candidates_).first(count), uniform);
}

TokenId Sampler::draw_among_all(float floor, double uniform) {
  for (float& logit : logits_) logit = logit < floor ? 0.0f : fast_exp(logit);
  double total = 0;
  for (const float weight : logits_) total += weight;
  double left = uniform * total;
  TokenId last = 0;
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    if (logits_[i] == 0) continue;
    last = static_cast<TokenId>(i);
    left -= logits_[i];
    if (left < 0) break;
  }
  return last;
}

TokenId Sampler::draw_among(std::span<const Candidate> candidates, double uniform) const {
  double total = 0;
  for (const Candidate& candidate : candidates) total += fast_exp(candidate.logit);
  double left = uniform * total;
  for (const Candidate& candidate : candidates) {
    left -= fast_exp(candidate.logit);
    if (left < 0) return candidate.token;
  }
  return candidates.back().token;
}

namespace {

constexpr auto kLikelierFirst = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
};

}  // namespace

// The k largest at the front of candidates_, likeliest first, and what equals the least of them.
std::size_t Sampler::keep_top_k(std::int64_t top_k, float floor) {
  const auto k = static_cast<std::size_t>(top_k);
  candidates_.clear();
  float threshold = floor;
  // The best so far: each time they have doubled, what is not among the k largest goes. Equals of
  // the k-th stay, so the next limit depends on how many did.
  std::size_t limit = 2 * k + 64;
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    if (logits_[i] < threshold || logits_[i] == kMasked) continue;
    candidates_.push_back({logits_[i], static_cast<TokenId>(i)});
    if (candidates_.size() < limit) continue;
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k - 1),
                     candidates_.end(), kLikelierFirst);
    threshold = candidates_[k - 1].logit;
    std::erase_if(candidates_, [&](const Candidate& at) { return at.logit < threshold; });
    limit = 2 * std::max(k, candidates_.size()) + 64;
  }
  std::sort(candidates_.begin(), candidates_.end(), kLikelierFirst);
  std::size_t count = std::min(k, candidates_.size());
  while (count > 0 && count < candidates_.size() &&
         candidates_[count].logit == candidates_[count - 1].logit) {
    ++count;
  }
  return count;
}

// Likeliest first until their probability reaches top_p; at least one.
std::size_t Sampler::keep_top_p(double top_p, std::size_t count, double total) {
  const double wanted = top_p * total;
  double sum = 0;
  std::size_t kept = 0;
  // Sorts no further than needed: the mass usually lies in a few candidates.
  for (std::size_t sorted = 0; kept < count;) {
    const std::size_t next = std::min(count, std::max<std::size_t>(128, sorted * 4));
    std::partial_sort(candidates_.begin() + static_cast<std::ptrdiff_t>(sorted),
                      candidates_.begin() + static_cast<std::ptrdiff_t>(next),
                      candidates_.begin() + static_cast<std::ptrdiff_t>(count), kLikelierFirst);
    for (sorted = next; kept < sorted; ++kept) {
      if (kept > 0 && sum >= wanted) return kept;
      sum += fast_exp(candidates_[kept].logit);
    }
  }
  return kept;
}

void Sampler::fill_logprob(std::span<const float> logits, const RowStats& stats, int alternatives,
                           Sampled& sampled) {
  const auto logprob_of = [&](TokenId token) {
    return logits[static_cast<std::size_t>(token)] - stats.log_sum_exp;
  };
  sampled.logprob.token = sampled.token;
  sampled.logprob.logprob = logprob_of(sampled.token);
  const auto count =
      std::min<std::size_t>(logits.size(), static_cast<std::size_t>(std::max(0, alternatives)));
  if (count == 0) return;
  std::copy(logits.begin(), logits.end(), logits_.begin());
  keep_top_k(static_cast<std::int64_t>(count), std::numeric_limits<float>::lowest());
  for (std::size_t i = 0; i < std::min(count, candidates_.size()); ++i) {
    sampled.logprob.top.emplace_back(candidates_[i].token, logprob_of(candidates_[i].token));
  }
}

}  // namespace saccade
