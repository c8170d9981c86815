#include "ops/cpu/expert_routes.h"

#include <algorithm>
#include <cmath>

namespace saccade::cpu {

// In double, so that every machine chooses and weighs alike.
void ExpertRoutes::choose(std::span<const float> logits, bool normalise, std::span<Choice> chosen) {
  const double largest = *std::ranges::max_element(logits);
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - largest);
  double taken = 0;
  const auto probability = [&](const Choice& choice) {
    return std::exp(logits[static_cast<std::size_t>(choice.expert)] - largest) / total;
  };
  for (std::size_t rank = 0; rank < chosen.size(); ++rank) {
    const std::span<const Choice> earlier = chosen.first(rank);
    std::int32_t best = -1;
    for (std::int32_t i = 0; i < std::ssize(logits); ++i) {
      if (best >= 0 &&
          !(logits[static_cast<std::size_t>(i)] > logits[static_cast<std::size_t>(best)]))
        continue;
      if (std::ranges::find(earlier, i, &Choice::expert) == earlier.end()) best = i;
    }
    chosen[rank].expert = best;
    taken += probability(chosen[rank]);
  }
  for (Choice& choice : chosen)
    choice.weight = static_cast<float>(probability(choice) / (normalise ? taken : 1));
}

void ExpertRoutes::plan(View logits, std::int64_t per_row, bool normalise, ThreadPool& pool) {
  const auto experts = static_cast<std::size_t>(logits.cols());
  const auto k = static_cast<std::size_t>(per_row);
  choices_.resize(static_cast<std::size_t>(logits.rows()) * k);
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / logits.cols());
  pool.parallel_for(logits.rows(), grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row)
      choose({logits.row<float>(row), experts}, normalise,
             std::span(choices_).subspan(static_cast<std::size_t>(row) * k, k));
  });
  sort(experts, k);
}

// By expert, and each one's rows in their order.
void ExpertRoutes::sort(std::size_t experts, std::size_t per_row) {
  begins_.assign(experts + 1, 0);
  for (const Choice& choice : choices_) ++begins_[static_cast<std::size_t>(choice.expert) + 1];
  for (std::size_t e = 0; e < experts; ++e) begins_[e + 1] += begins_[e];
  visits_.resize(choices_.size());
  for (std::size_t i = 0; i < choices_.size(); ++i)
    visits_[begins_[static_cast<std::size_t>(choices_[i].expert)]++] = {
        static_cast<std::int32_t>(i / per_row), choices_[i].weight};
  // Each begin has moved to its end, which is the next one's begin.
  std::shift_right(begins_.begin(), begins_.end(), 1);
  begins_.front() = 0;
}

}  // namespace saccade::cpu
