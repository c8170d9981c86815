// A cost learnt from measurements as a sum of terms that can only add: cost = sum of weight * term,
// every weight at least 0. What has been seen is remembered by kind of load (stratum), the latest
// few of each, so that a thousand steps of one kind do not wipe out what another kind costs.
//
// Errors count relative to the cost, those far from the fit count less (Huber), old ones less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace saccade {

class CostFit {
 public:
  static constexpr std::size_t kMaxTerms = 10;
  using Terms = std::array<double, kMaxTerms>;  // unused ones are 0

  // Terms should be about 1 in size; each is at least 0.
  explicit CostFit(std::size_t strata) : strata_(strata) {}

  // A cost that is not a positive number is not a measurement and is left out.
  void observe(const Terms& terms, std::size_t stratum, double cost);
  // 0 while nothing is known.
  double predict(const Terms& terms) const;
  std::int64_t observations() const { return observations_; }

 private:
  struct Sample {
    Terms terms{};
    double cost = 0;
    std::int64_t at = 0;  // observations_ before it
  };
  struct Stratum {
    std::vector<Sample> samples;
    std::size_t next = 0;  // the oldest, once there are enough
  };
  void fit() const;
  void solve(const std::vector<double>& trust) const;

  std::vector<Stratum> strata_;
  std::int64_t observations_ = 0;
  mutable Terms weights_{};  // as of fitted_at_
  mutable std::int64_t fitted_at_ = 0;
};

}  // namespace saccade
