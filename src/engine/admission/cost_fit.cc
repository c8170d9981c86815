#include "engine/admission/cost_fit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace saccade {
namespace {

constexpr std::size_t kKept = 12;         // samples a stratum
constexpr std::int64_t kMaxStale = 16;    // observations that a fit may miss
constexpr double kHalfLife = 512;         // observations
constexpr double kLeastTrust = 1.0 / 16;  // of the oldest
constexpr int kRounds = 3;                // of fitting and looking for what lies far out
constexpr int kSweeps = 60;               // of coordinate descent
constexpr double kLeastSpread = 0.02;     // relative errors that are never far out
constexpr double kFarOut = 2;             // median errors
constexpr double kRidge = 1e-9;           // of the diagonal

}  // namespace

void CostFit::observe(const Terms& terms, std::size_t stratum, double cost) {
  CHECK(stratum < strata_.size(), "stratum {} of {}", stratum, strata_.size());
  if (!std::isfinite(cost) || cost <= 0) return;
  Stratum& to = strata_[stratum];
  if (to.samples.size() < kKept) {
    to.samples.push_back({terms, cost, observations_});
  } else {
    to.samples[to.next] = {terms, cost, observations_};
    to.next = (to.next + 1) % kKept;
  }
  ++observations_;
}

double CostFit::predict(const Terms& terms) const {
  // While little is known every observation tells much.
  if (observations_ - fitted_at_ > std::min(kMaxStale, observations_ / 16)) fit();
  double cost = 0;
  for (std::size_t i = 0; i < kMaxTerms; ++i) cost += weights_[i] * terms[i];
  return cost;
}

void CostFit::fit() const {
  std::vector<double> trust;
  for (const Stratum& stratum : strata_) {
    for (const Sample& sample : stratum.samples) {
      const double age = static_cast<double>(observations_ - 1 - sample.at);
      trust.push_back(std::max(kLeastTrust, std::exp2(-age / kHalfLife)));
    }
  }
  std::vector<double> weighted = trust;
  std::vector<double> errors(trust.size());
  for (int round = 0; round < kRounds; ++round) {
    solve(weighted);
    std::size_t at = 0;
    for (const Stratum& stratum : strata_) {
      for (const Sample& sample : stratum.samples) {
        double cost = 0;
        for (std::size_t i = 0; i < kMaxTerms; ++i) cost += weights_[i] * sample.terms[i];
        errors[at++] = std::abs(cost / sample.cost - 1);
      }
    }
    std::vector<double> sorted = errors;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    const double near = kFarOut * std::max(kLeastSpread, *middle);
    for (std::size_t i = 0; i < trust.size(); ++i) {
      weighted[i] = trust[i] * (errors[i] <= near ? 1 : near / errors[i]);
    }
  }
  fitted_at_ = observations_;
}

// Least squares with weights held at 0 or above, by coordinate descent from the last ones.
void CostFit::solve(const std::vector<double>& trust) const {
  std::array<Terms, kMaxTerms> gram{};
  Terms right{};
  std::size_t at = 0;
  for (const Stratum& stratum : strata_) {
    for (const Sample& sample : stratum.samples) {
      const double weight = trust[at++] / (sample.cost * sample.cost);
      for (std::size_t i = 0; i < kMaxTerms; ++i) {
        right[i] += weight * sample.terms[i] * sample.cost;
        for (std::size_t j = 0; j <= i; ++j) {
          gram[i][j] += weight * sample.terms[i] * sample.terms[j];
        }
      }
    }
  }
  for (std::size_t i = 0; i < kMaxTerms; ++i) {
    for (std::size_t j = 0; j < i; ++j) gram[j][i] = gram[i][j];
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < kMaxTerms; ++i) {
      if (gram[i][i] <= 0) {
        weights_[i] = 0;
        continue;
      }
      double gradient = right[i];
      for (std::size_t j = 0; j < kMaxTerms; ++j) gradient -= gram[i][j] * weights_[j];
      weights_[i] = std::max(0.0, weights_[i] + gradient / (gram[i][i] * (1 + kRidge)));
    }
  }
}

}  // namespace saccade
