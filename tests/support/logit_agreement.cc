#include "tests/support/logit_agreement.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace saccade {
namespace {

double log_sum(const float* logits, std::int64_t count) {
  const double most = *std::max_element(logits, logits + count);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(logits[i] - most);
  return most + std::log(sum);
}

}  // namespace

void LogitAgreement::add(View first, View second) {
  const std::int64_t vocab = first.cols();
  CHECK(first.rows() == second.rows() && vocab == second.cols(), "logits of {} x {} and {} x {}",
        first.rows(), vocab, second.rows(), second.cols());
  for (std::int64_t row = 0; row < first.rows(); ++row) {
    const float* const p = first.row<float>(row);
    const float* const q = second.row<float>(row);
    const double p_sum = log_sum(p, vocab);
    const double q_sum = log_sum(q, vocab);
    double& divergence = divergences.emplace_back(0);
    for (std::int64_t i = 0; i < vocab; ++i)
      divergence += std::exp(p[i] - p_sum) * ((p[i] - p_sum) - (q[i] - q_sum));
    same += std::max_element(p, p + vocab) - p == std::max_element(q, q + vocab) - q;
    ++positions;
  }
}

double LogitAgreement::mean_divergence() const {
  return positions == 0 ? 0
                        : std::accumulate(divergences.begin(), divergences.end(), 0.0) /
                              static_cast<double>(positions);
}

double LogitAgreement::divergence_of(double share) const {
  if (divergences.empty()) return 0;
  std::vector<double> sorted = divergences;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto at =
      sorted.begin() + std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(rank) - 1);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

}  // namespace saccade
