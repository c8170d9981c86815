#include "engine/step/beam_search.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace saccade {

BeamSearch::BeamSearch(BeamSettings settings) : settings_(std::move(settings)), live_(1) {
  CHECK(settings_.width > 0 && settings_.max_tokens > 0 && settings_.prompt_tokens > 0,
        "{} beams of {} tokens after {}", settings_.width, settings_.max_tokens,
        settings_.prompt_tokens);
}

double BeamSearch::score(double logprob, std::int64_t tokens) const {
  return logprob /
         std::pow(static_cast<double>(settings_.prompt_tokens + tokens), settings_.length_penalty);
}

void BeamSearch::keep(Beam&& beam, std::int64_t tokens) {
  const double score = this->score(beam.logprob, tokens);
  const auto at = std::ranges::upper_bound(complete_, score, std::greater<>(), &Complete::score);
  complete_.insert(at, {std::move(beam), score});
  if (complete_.size() > settings_.width) complete_.pop_back();
}

// Sums only fall, and no answer's length counts for more than the longest one's, or than the next
// one's where a short answer is the better: what a live beam cannot pass, it will not.
bool BeamSearch::nothing_better_can_come() const {
  if (complete_.size() < settings_.width) return false;
  const double least = complete_.back().score;
  return std::ranges::all_of(live_, [&](const Beam& beam) {
    const double at_most =
        std::max(score(beam.logprob, steps_), score(beam.logprob, settings_.max_tokens));
    return at_most <= least;
  });
}

void BeamSearch::advance(std::span<const Likeliest> likeliest) {
  CHECK(likeliest.size() == live_.size(), "{} lists for {} beams", likeliest.size(), live_.size());
  struct Candidate {
    std::size_t beam;
    const std::pair<TokenId, float>* token;
    double logprob;
  };
  std::vector<Candidate> candidates;
  const auto grown = [&](const Candidate& from, bool with_token) {
    Beam beam = live_[from.beam];
    beam.logprob = from.logprob;
    if (!with_token) return beam;
    const auto [token, logprob] = *from.token;
    beam.tokens.push_back(token);
    const Likeliest& all = likeliest[from.beam];
    const std::size_t listed = std::min(all.size(), static_cast<std::size_t>(settings_.listed));
    beam.logprobs.push_back(
        {token, logprob, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(listed)}});
    return beam;
  };
  for (std::size_t i = 0; i < live_.size(); ++i) {
    for (const auto& token : likeliest[i]) {
      const Candidate candidate{i, &token, live_[i].logprob + static_cast<double>(token.second)};
      if (std::ranges::find(settings_.ends, token.first) == settings_.ends.end()) {
        candidates.push_back(candidate);
        continue;
      }
      Beam ended = grown(candidate, settings_.keep_end);
      ended.finish = FinishReason::kStop;
      keep(std::move(ended), steps_);
    }
  }
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::logprob);
  if (candidates.size() > settings_.width) candidates.resize(settings_.width);
  std::vector<Beam> next;
  for (const Candidate& candidate : candidates) next.push_back(grown(candidate, true));
  live_ = std::move(next);
  ++steps_;
  if (steps_ == settings_.max_tokens) {
    for (Beam& beam : live_) {
      beam.finish = FinishReason::kLength;
      keep(std::move(beam), steps_);
    }
    live_.clear();
  } else if (nothing_better_can_come()) {
    live_.clear();
  }
}

std::vector<Beam> BeamSearch::best() const {
  std::vector<Beam> best;
  for (const Complete& complete : complete_) best.push_back(complete.beam);
  return best;
}

}  // namespace saccade
