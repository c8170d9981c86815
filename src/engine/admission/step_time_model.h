// How long a step takes, learnt while serving, so that a prefill chunk can be as large as a latency
// target allows and no larger (the step-time model of Sarathi-like schedulers):
//
//   seconds = a + b * decode rows + c(rows) + d * context tokens + e * prefill tokens * their
//   context
//
// where c grows with the rows and ever faster: few rows cost the reading of the weights, many their
// arithmetic. No coefficient is negative, so more work is never predicted to be faster, and no
// chunk is accepted that is far larger than what has been measured.
#pragma once

#include <cstdint>

#include "engine/admission/cost_fit.h"

namespace saccade {

struct StepLoad {
  std::int64_t decode_rows = 0;
  std::int64_t prefill_tokens = 0;
  std::int64_t context_tokens = 0;  // in the cache, summed over the step's sequences
  double prefill_context = 0;       // prefill tokens * mean context that they see
};

class StepTimeModel {
 public:
  static constexpr std::int64_t kTrusted = 8;      // observations before predictions are used
  static constexpr std::int64_t kFirstChunk = 16;  // prefill tokens, while nothing is known
  static constexpr std::int64_t kReach = 2;        // times the largest chunk measured

  StepTimeModel();
  void observe(const StepLoad& load, double seconds);
  // 0 while nothing is known.
  double predict(const StepLoad& load) const;
  std::int64_t observations() const { return fit_.observations(); }

  // The most prefill tokens, up to `most`, that keep a step with this decode load within `seconds`.
  // load.prefill_tokens and load.prefill_context say how much context a token sees.
  std::int64_t largest_prefill(StepLoad load, double seconds, std::int64_t most) const;

 private:
  CostFit fit_;
  std::int64_t largest_seen_ = 0;  // prefill tokens
};

}  // namespace saccade
