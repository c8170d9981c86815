// How long a step takes, learnt while serving, so that a prefill chunk can be as large as a latency
// target allows and no larger:
//
//   seconds = a + b * decode rows + c * prefill tokens + d * context tokens + e * prefill tokens *
//   their context
//
// fitted by recursive least squares that forgets: about the last hundred steps count.
#pragma once

#include <array>
#include <cstdint>

namespace saccade {

struct StepLoad {
  std::int64_t decode_rows = 0;
  std::int64_t prefill_tokens = 0;
  std::int64_t context_tokens = 0;  // in the cache, summed over the step's sequences
  double prefill_context = 0;       // prefill tokens * mean context that they see
};

class StepTimeModel {
 public:
  StepTimeModel();
  void observe(const StepLoad& load, double seconds);
  double predict(const StepLoad& load) const;  // never negative
  std::int64_t observations() const { return observations_; }

  // The most prefill tokens that keep a step with this decode load within `seconds`, between
  // `least` and `most`. Starts careful while little is known.
  std::int64_t largest_prefill(StepLoad load, double seconds, std::int64_t least,
                               std::int64_t most) const;

 private:
  static constexpr int kTerms = 5;
  using Vector = std::array<double, kTerms>;
  static Vector features(const StepLoad& load);

  Vector weights_{};
  std::array<Vector, kTerms> covariance_{};
  std::int64_t observations_ = 0;
};

}  // namespace saccade
