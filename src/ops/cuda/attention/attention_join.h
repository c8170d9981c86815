// Two runs of tokens become one: how a row's results of two splits are joined. One formula, rounded
// step by step wherever it is compiled, so that it is the same bits in every kernel.
#pragma once

#include "ops/cuda/kernel.h"

namespace saccade::cuda {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();

// One row's place in its softmax: largest score so far and the sum of the weights.
struct RowState {
  float max = kUnseen;
  float sum = 0;
};

// Sums of two runs, each times what brings it to the largest score of both.
SACCADE_DEVICE float joined_sum(float earlier, float by, float later, float later_by) {
  return fmaf(later, later_by, multiply_apart(earlier, by));
}

// A run of which the row sees nothing has a sum of zero, and no other has: the largest score's
// weight is one, and what is no number stays none. Such a run changes nothing, not even the sign of
// a zero: rows beside this one may see more splits than it does.
class Join {
 public:
  // `exp`: to the base that scores are exponents of.
  template <typename Exp>
  SACCADE_DEVICE Join(const RowState& earlier, const RowState& later, Exp exp)
      : earlier_alone_(later.sum == 0), later_alone_(!earlier_alone_ && earlier.sum == 0) {
    state_ = earlier_alone_ ? earlier : later;
    if (earlier_alone_ || later_alone_) return;
    state_.max = larger(earlier.max, later.max);
    earlier_ = earlier.max == state_.max ? 1.0f : exp(add_apart(earlier.max, -state_.max));
    later_ = later.max == state_.max ? 1.0f : exp(add_apart(later.max, -state_.max));
    state_.sum = of(earlier.sum, later.sum);
  }
  SACCADE_DEVICE const RowState& state() const { return state_; }
  // Of sums that belong to them.
  SACCADE_DEVICE float of(float earlier, float later) const {
    if (earlier_alone_) return earlier;
    if (later_alone_) return later;
    return joined_sum(earlier, earlier_, later, later_);
  }
  SACCADE_DEVICE float earlier() const { return earlier_; }
  SACCADE_DEVICE float later() const { return later_; }

 private:
  bool earlier_alone_;
  bool later_alone_;
  float earlier_ = 1;
  float later_ = 1;
  RowState state_;
};

// A row in scratch: of kWidth sums, then kPartialStateFloats.
template <int kWidth>
SACCADE_DEVICE float* partial_row(const AttentionKernelArgs& args, std::int64_t row,
                                  std::int64_t kv_head) {
  return args.splits.partials + (row * args.kv_heads + kv_head) * (kWidth + kPartialStateFloats);
}

// Which column of a head has place `place` there, over bytes; over numbers each has its own.
SACCADE_DEVICE int code_column(int place) {
  return place / 16 * 16 + place % 8 / 2 * 4 + place / 8 % 2 + place % 2 * 2;
}

}  // namespace saccade::cuda
