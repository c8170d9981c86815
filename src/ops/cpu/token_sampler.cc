#include "ops/cpu/token_sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace saccade::cpu {
namespace {

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

CpuTokenCounts::CpuTokenCounts(std::span<const std::int32_t> prompt)
    : prompt_(prompt.begin(), prompt.end()) {
  std::sort(prompt_.begin(), prompt_.end());
  prompt_.erase(std::unique(prompt_.begin(), prompt_.end()), prompt_.end());
}

SampledToken TokenSampler::pick(std::span<const float> logits, const RowStats& stats,
                                const SamplingRow& row, std::span<TokenLogit> alternatives) {
  SampledToken sampled;
  sampled.failed = 1;
  if (!std::isfinite(stats.max) || !std::isfinite(stats.log_sum_exp)) return sampled;
  if (row.given >= 0) {
    sampled.token = row.given;
    const float logit = logits[static_cast<std::size_t>(row.given)];
    sampled.rank = static_cast<std::int32_t>(
        std::count_if(logits.begin(), logits.end(), [logit](float at) { return at >= logit; }));
  } else if (row.plain_greedy()) {
    sampled.token = stats.argmax;
  } else {
    logits_.assign(logits.begin(), logits.end());
    adjust(row);
    sampled.token = draw(row);
    if (sampled.token < 0) {
      sampled.token = 0;
      return sampled;
    }
  }
  sampled.failed = 0;
  if (row.counts != nullptr && row.given < 0)
    static_cast<CpuTokenCounts*>(row.counts)->count(sampled.token);
  if (row.alternatives < 0) return sampled;
  sampled.logprob = logits[static_cast<std::size_t>(sampled.token)] - stats.log_sum_exp;
  sampled.alternatives = list_alternatives(
      logits, stats, alternatives.first(static_cast<std::size_t>(row.alternatives)));
  return sampled;
}

// All that can change which token is the largest.
void TokenSampler::adjust(const SamplingRow& row) {
  if (!row.allowed.empty()) keep_allowed(row.allowed);
  const auto in_vocabulary = [&](std::int32_t token) {
    return token >= 0 && static_cast<std::size_t>(token) < logits_.size();
  };
  for (const std::span<const std::int32_t> tokens : row.masked) {
    for (const std::int32_t token : tokens) {
      if (in_vocabulary(token)) logits_[static_cast<std::size_t>(token)] = kMasked;
    }
  }
  for (const auto& [token, bias] : row.bias) {
    if (in_vocabulary(token)) logits_[static_cast<std::size_t>(token)] += bias;
  }
  if (row.counts != nullptr) penalise(row);
}

void TokenSampler::keep_allowed(std::span<const std::uint32_t> allowed) {
  const std::size_t covered = std::min(logits_.size(), allowed.size() * 32);
  for (std::size_t first = 0; first < covered; first += 32) {
    const std::uint32_t bits = allowed[first / 32];
    if (bits == ~std::uint32_t{0}) continue;
    const std::size_t end = std::min(covered, first + 32);
    for (std::size_t token = first; token < end; ++token) {
      if ((bits >> (token - first) & 1u) == 0) logits_[token] = kMasked;
    }
  }
  std::fill(logits_.begin() + static_cast<std::ptrdiff_t>(covered), logits_.end(), kMasked);
}

void TokenSampler::penalise(const SamplingRow& row) {
  const auto& counts = static_cast<const CpuTokenCounts&>(*row.counts);
  const auto at = [&](std::int32_t token) -> float* {
    const auto index = static_cast<std::size_t>(token);
    return token >= 0 && index < logits_.size() ? &logits_[index] : nullptr;
  };
  // Penalties of any size leave numbers: the largest there are, and none for what is masked.
  using Limits = std::numeric_limits<float>;
  const float repetition = std::clamp(row.repetition_penalty, Limits::min(), Limits::max());
  const auto repeat = [&](std::int32_t token) {
    float* logit = at(token);
    if (logit == nullptr || *logit == kMasked) return;
    *logit = std::clamp(*logit > 0 ? *logit / repetition : *logit * repetition, Limits::lowest(),
                        Limits::max());
  };
  if (repetition != 1.0f) {
    for (const std::int32_t token : counts.prompt()) {
      if (!counts.generated().contains(token)) repeat(token);
    }
    for (const auto& [token, count] : counts.generated()) repeat(token);
  }
  for (const auto& [token, count] : counts.generated()) {
    if (float* logit = at(token)) {
      *logit -= row.frequency_penalty * static_cast<float>(count);
      *logit -= row.presence_penalty;
    }
  }
}

// -1: nothing is left to draw from.
std::int32_t TokenSampler::draw(const SamplingRow& row) {
  const auto largest = std::max_element(logits_.begin(), logits_.end());
  if (!std::isfinite(*largest)) return -1;
  if (row.temperature < kGreedyTemperature) {
    return static_cast<std::int32_t>(largest - logits_.begin());
  }
  const double uniform = Rng(row.draw).uniform();
  // Above 0 at any temperature: what is masked stays so.
  const auto scale = static_cast<float>(std::max<double>(
      1.0 / std::max(row.temperature, kLeastTemperature), std::numeric_limits<float>::min()));
  const float top = *largest;
  for (float& logit : logits_) logit = (logit - top) * scale;
  const float floor = row.min_p > 0 ? static_cast<float>(std::log(row.min_p))
                                    : std::numeric_limits<float>::lowest();

  const auto vocab = static_cast<std::int64_t>(logits_.size());
  const bool by_k = row.top_k > 0 && row.top_k < vocab;
  if (!by_k && row.top_p >= 1) return draw_among_all(floor, uniform);

  std::size_t count = 0;
  double total = 0;
  if (by_k) {
    count = keep_top_k(row.top_k, floor);
    for (std::size_t i = 0; i < count; ++i) total += fast_exp(candidates_[i].logit);
  } else {
    candidates_.clear();
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (logits_[i] < floor) continue;
      total += fast_exp(logits_[i]);
      candidates_.push_back({logits_[i], static_cast<std::int32_t>(i)});
    }
    count = candidates_.size();
  }
  if (row.top_p < 1) count = keep_top_p(row.top_p, count, total);
  return draw_among(std::span(candidates_).first(count), uniform);
}

std::int32_t TokenSampler::draw_among_all(float floor, double uniform) {
  for (float& logit : logits_) logit = logit < floor ? 0.0f : fast_exp(logit);
  double total = 0;
  for (const float weight : logits_) total += weight;
  double left = uniform * total;
  std::int32_t last = 0;
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    if (logits_[i] == 0) continue;
    last = static_cast<std::int32_t>(i);
    left -= logits_[i];
    if (left < 0) break;
  }
  return last;
}

std::int32_t TokenSampler::draw_among(std::span<const Candidate> candidates, double uniform) {
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
std::size_t TokenSampler::keep_top_k(std::int64_t top_k, float floor) {
  const auto k = static_cast<std::size_t>(top_k);
  candidates_.clear();
  float threshold = floor;
  // The best so far: each time they have doubled, what is not among the k largest goes. Equals of
  // the k-th stay, so the next limit depends on how many did.
  std::size_t limit = 2 * k + 64;
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    if (logits_[i] < threshold || logits_[i] == kMasked) continue;
    candidates_.push_back({logits_[i], static_cast<std::int32_t>(i)});
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
std::size_t TokenSampler::keep_top_p(double top_p, std::size_t count, double total) {
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

// The likeliest, of the raw logits.
std::int32_t TokenSampler::list_alternatives(std::span<const float> logits, const RowStats& stats,
                                             std::span<TokenLogit> alternatives) {
  if (alternatives.empty()) return 0;
  logits_.assign(logits.begin(), logits.end());
  keep_top_k(static_cast<std::int64_t>(alternatives.size()), std::numeric_limits<float>::lowest());
  const std::size_t count = std::min(alternatives.size(), candidates_.size());
  for (std::size_t i = 0; i < count; ++i) {
    alternatives[i] = {candidates_[i].token, candidates_[i].logit - stats.log_sum_exp};
  }
  return static_cast<std::int32_t>(count);
}

}  // namespace saccade::cpu
