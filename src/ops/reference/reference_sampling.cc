// What ops/sampling.h says, in double precision and by sorting everything.
#include "ops/reference/reference_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace saccade {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Scored {
  double logit;
  std::int32_t token;
};

bool likelier(const Scored& a, const Scored& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The raw logits under everything that can change which is the largest.
std::vector<Scored> adjusted(std::span<const float> logits, const SamplingRow& row) {
  std::vector<Scored> scores;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const bool allowed = row.allowed.empty() || (token / 32 < row.allowed.size() &&
                                                 (row.allowed[token / 32] >> token % 32 & 1u) != 0);
    scores.push_back(
        {allowed ? static_cast<double>(logits[token]) : kNever, static_cast<std::int32_t>(token)});
  }
  const auto at = [&](std::int32_t token) {
    return token >= 0 && static_cast<std::size_t>(token) < scores.size()
               ? &scores[static_cast<std::size_t>(token)].logit
               : nullptr;
  };
  for (const std::span<const std::int32_t> tokens : row.masked) {
    for (const std::int32_t token : tokens) {
      if (double* logit = at(token)) *logit = kNever;
    }
  }
  for (const auto& [token, bias] : row.bias) {
    if (double* logit = at(token)) *logit += static_cast<double>(bias);
  }
  if (row.counts == nullptr) return scores;
  const auto& counts = static_cast<const ReferenceTokenCounts&>(*row.counts);
  for (Scored& score : scores) {
    const auto found = counts.generated.find(score.token);
    const int times = found == counts.generated.end() ? 0 : found->second;
    using Limits = std::numeric_limits<float>;
    const double repetition =
        std::clamp<double>(row.repetition_penalty, Limits::min(), Limits::max());
    if (score.logit != kNever && (times > 0 || counts.prompt.contains(score.token))) {
      score.logit =
          std::clamp<double>(score.logit > 0 ? score.logit / repetition : score.logit * repetition,
                             Limits::lowest(), Limits::max());
    }
    if (times == 0) continue;
    score.logit -= static_cast<double>(row.frequency_penalty) * times;
    score.logit -= static_cast<double>(row.presence_penalty);
  }
  return scores;
}

// Whoever is left to draw from: in the order of tokens, or likeliest first once a cut by rank or by
// mass was made.
std::vector<Scored> kept(std::vector<Scored> scores, const SamplingRow& row) {
  const double top = std::max_element(scores.begin(), scores.end(), [](auto& a, auto& b) {
                       return a.logit < b.logit;
                     })->logit;
  for (Scored& score : scores) {
    score.logit = (score.logit - top) / std::max(row.temperature, kLeastTemperature);
  }
  // What min_p is exactly, in f32, stays.
  const double floor = row.min_p > 0 ? static_cast<float>(std::log(row.min_p)) : kNever;
  std::erase_if(scores,
                [&](const Scored& score) { return score.logit == kNever || score.logit < floor; });
  const auto k = static_cast<std::size_t>(std::max<std::int64_t>(0, row.top_k));
  if (k > 0 || row.top_p < 1) std::sort(scores.begin(), scores.end(), likelier);
  if (k > 0 && k < scores.size()) {
    const double least = scores[k - 1].logit;
    std::erase_if(scores, [&](const Scored& score) { return score.logit < least; });
  }
  if (row.top_p < 1) {
    double total = 0;
    for (const Scored& score : scores) total += std::exp(score.logit);
    double sum = 0;
    std::size_t count = 0;
    while (count < scores.size() && (count == 0 || sum < row.top_p * total)) {
      sum += std::exp(scores[count++].logit);
    }
    scores.resize(count);
  }
  return scores;
}

std::int32_t draw(const std::vector<Scored>& scores, std::uint64_t seed) {
  double total = 0;
  for (const Scored& score : scores) total += std::exp(score.logit);
  double left = Rng(seed).uniform() * total;
  for (const Scored& score : scores) {
    left -= std::exp(score.logit);
    if (left < 0) return score.token;
  }
  return scores.back().token;
}

}  // namespace

ReferenceTokenCounts::ReferenceTokenCounts(std::span<const std::int32_t> of_prompt)
    : prompt(of_prompt.begin(), of_prompt.end()) {}

SampledToken reference_sample(std::span<const float> logits, const RowStats& stats,
                              const SamplingRow& row, std::span<TokenLogit> alternatives) {
  SampledToken sampled;
  sampled.failed = 1;
  if (!std::isfinite(stats.max) || !std::isfinite(stats.log_sum_exp)) return sampled;
  if (row.given < 0) {
    const std::vector<Scored> scores = adjusted(logits, row);
    const Scored best = *std::min_element(scores.begin(), scores.end(), likelier);
    if (!std::isfinite(best.logit)) return sampled;
    sampled.token =
        row.temperature < kGreedyTemperature ? best.token : draw(kept(scores, row), row.draw);
    if (row.counts != nullptr) {
      ++static_cast<ReferenceTokenCounts*>(row.counts)->generated[sampled.token];
    }
  } else {
    sampled.token = row.given;
    for (const float logit : logits) {
      if (logit >= logits[static_cast<std::size_t>(row.given)]) ++sampled.rank;
    }
  }
  sampled.failed = 0;
  if (row.alternatives < 0) return sampled;
  const auto logprob = [&](std::int32_t token) {
    return logits[static_cast<std::size_t>(token)] - stats.log_sum_exp;
  };
  sampled.logprob = logprob(sampled.token);
  std::vector<Scored> raw;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    raw.push_back({static_cast<double>(logits[token]), static_cast<std::int32_t>(token)});
  }
  std::sort(raw.begin(), raw.end(), likelier);
  raw.resize(std::min(raw.size(), static_cast<std::size_t>(row.alternatives)));
  for (const Scored& score : raw) {
    alternatives[static_cast<std::size_t>(sampled.alternatives++)] = {score.token,
                                                                      logprob(score.token)};
  }
  return sampled;
}

}  // namespace saccade
