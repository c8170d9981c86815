#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/hash.h"

namespace saccade {
namespace {

constexpr double kGreedyBelow = 1e-5;  // temperatures under it are greedy, as in vLLM
constexpr float kNever = -std::numeric_limits<float>::infinity();

double uniform_of(std::uint64_t seed, std::size_t index) {
  return static_cast<double>(hash_combine(mix64(seed + 0x5acc), index) >> 11) * 0x1.0p-53;
}

std::size_t argmax(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

bool penalised(const SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

}  // namespace

Sampler::Sampler(std::int64_t vocab) {
  candidates_.reserve(static_cast<std::size_t>(vocab));
  weights_.reserve(static_cast<std::size_t>(vocab));
}

std::vector<std::pair<TokenId, float>> top_tokens(std::span<const float> logits, int count) {
  const auto better = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  // A heap of the best so far, its worst on top: one comparison for most tokens.
  std::vector<TokenId> best;
  const auto wanted = std::min(static_cast<std::size_t>(std::max(count, 0)), logits.size());
  if (wanted == 0) return {};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (best.size() < wanted) {
      best.push_back(token);
      std::push_heap(best.begin(), best.end(), better);
    } else if (better(token, best.front())) {
      std::pop_heap(best.begin(), best.end(), better);
      best.back() = token;
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  std::vector<std::pair<TokenId, float>> top;
  for (const TokenId token : best) top.emplace_back(token, logits[static_cast<std::size_t>(token)]);
  return top;
}

Sampler::Choice Sampler::sample(std::span<float> logits, const RowStats& stats,
                                const SamplingParams& params, const TokenHistory& history,
                                std::span<const TokenId> banned, std::uint64_t seed) {
  Choice choice;
  std::vector<std::pair<TokenId, float>> top;
  if (params.logprobs) top = top_tokens(logits, *params.logprobs);
  const bool changed = !banned.empty() || !params.logit_bias.empty() || penalised(params);
  // The chosen token's own logit, before anything below changes it.
  const auto finish = [&](TokenId token, float raw_logit) {
    choice.token = token;
    if (params.logprobs) {
      choice.logprob.token = token;
      choice.logprob.logprob = raw_logit - stats.log_sum_exp;
      for (auto& [id, logit] : top) choice.logprob.top.emplace_back(id, logit - stats.log_sum_exp);
    }
    return choice;
  };

  const bool greedy = params.temperature < kGreedyBelow;
  if (greedy && !changed) return finish(stats.argmax, stats.max);
  std::vector<float> raw;
  if (changed && params.logprobs) raw.assign(logits.begin(), logits.end());
  for (const TokenId token : banned) {
    if (token >= 0 && static_cast<std::size_t>(token) < logits.size())
      logits[static_cast<std::size_t>(token)] = kNever;
  }
  for (const auto& [token, bias] : params.logit_bias)
    logits[static_cast<std::size_t>(token)] += bias;
  apply_penalties(logits, params, history);
  const TokenId token = greedy ? static_cast<TokenId>(argmax(logits))
                               : draw(logits, params, uniform_of(seed, history.output.size()));
  const auto index = static_cast<std::size_t>(token);
  return finish(token, raw.empty() ? logits[index] : raw[index]);
}

void Sampler::apply_penalties(std::span<float> logits, const SamplingParams& params,
                              const TokenHistory& history) {
  if (!penalised(params)) return;
  counts_.clear();
  for (const TokenId token : history.output) ++counts_[token];
  if (params.repetition_penalty != 1.0) {
    // Once for every token of prompt or output; an entry of count 0 marks a prompt token.
    for (const TokenId token : history.prompt) counts_.try_emplace(token, 0);
  }
  const auto repetition = static_cast<float>(params.repetition_penalty);
  for (const auto& [token, count] : counts_) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= static_cast<float>(params.frequency_penalty) * static_cast<float>(count);
    if (count > 0) logit -= static_cast<float>(params.presence_penalty);
  }
}

TokenId Sampler::draw(std::span<const float> logits, const SamplingParams& params, double uniform) {
  const float most = *std::max_element(logits.begin(), logits.end());
  const auto inverse_temperature = static_cast<float>(1.0 / params.temperature);
  // min-p is a bound on the scaled logit: p >= min_p * p_max.
  const float least = params.min_p > 0 ? static_cast<float>(std::log(params.min_p)) : kNever;
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float scaled = (logits[i] - most) * inverse_temperature;
    if (scaled >= least && scaled > kNever)
      candidates_.push_back({scaled, static_cast<TokenId>(i)});
  }
  if (candidates_.empty()) return static_cast<TokenId>(argmax(logits));
  if (params.top_k > 0) keep_top_k(params.top_k);
  if (params.top_p < 1.0) keep_top_p(params.top_p);

  // In the order of ids (top-p leaves an order by probability): one fixed order, so that a draw is
  // reproducible.
  double total = 0;
  weights_.clear();
  for (const Candidate& candidate : candidates_) {
    weights_.push_back(std::exp(candidate.logit));
    total += weights_.back();
  }
  double left = uniform * total;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    left -= weights_[i];
    if (left < 0) return candidates_[i].token;
  }
  return candidates_.back().token;  // rounding
}

// Keeps every candidate at least as likely as the k-th (ties stay, as in vLLM).
void Sampler::keep_top_k(std::int64_t k) {
  if (k >= static_cast<std::int64_t>(candidates_.size())) return;
  weights_.clear();
  for (const Candidate& candidate : candidates_) weights_.push_back(candidate.logit);
  std::nth_element(weights_.begin(), weights_.begin() + (k - 1), weights_.end(), std::greater<>());
  const float bound = weights_[static_cast<std::size_t>(k - 1)];
  std::erase_if(candidates_,
                [bound](const Candidate& candidate) { return candidate.logit < bound; });
}

// Keeps the most likely candidates until their probability reaches p; at least one.
void Sampler::keep_top_p(double p) {
  double total = 0;
  for (const Candidate& candidate : candidates_)
    total += std::exp(static_cast<double>(candidate.logit));
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  // The head is usually short: sort growing prefixes instead of the whole vocabulary.
  std::size_t sorted = 0;
  std::size_t kept = 0;
  double sum = 0;
  while (kept < candidates_.size() && (kept == 0 || sum < p * total)) {
    if (kept == sorted) {
      const std::size_t next = std::min(candidates_.size(), std::max<std::size_t>(64, sorted * 8));
      const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      std::partial_sort(begin, candidates_.begin() + static_cast<std::ptrdiff_t>(next),
                        candidates_.end(), better);
      sorted = next;
    }
    sum += std::exp(static_cast<double>(candidates_[kept].logit));
    ++kept;
  }
  candidates_.resize(kept);
}

}  // namespace saccade
