// A row's softmax over a tile of keys, as the tensor cores' kernels compute it: one arithmetic, so
// that a row has the same bits whichever of them it comes to.
//
// A tile of keys has four quarters. In each, weights are added up to a sum of its own; what was
// added before is scaled down when the row's reference rises. At the end of a split lanes of a quad
// add up each quarter's sums, and those are added in order.
#pragma once

#include "ops/cuda/attention/attention_join.h"

namespace saccade::cuda {

constexpr float kLog2E = 1.44269504088896341f;
constexpr int kKeyQuarters = 4;
// A reference stays where it is while scores are less than this many powers of two above it: then
// sums need not be scaled. A weight of 2^8 is as exact as one of 1.
constexpr float kReferenceRoom = 8;

// Of a row: the score, among those it has seen, that weights are relative to.
struct Reference {
  float scaled = kUnseen;  // times the factor that makes scores exponents of 2

  // After a tile whose largest score is `largest`; what sums so far have to be multiplied by.
  SACCADE_DEVICE float raise(float largest, float factor) {
    const bool first = scaled == kUnseen;
    if (!first && !(fmaf(largest, factor, -scaled) > kReferenceRoom)) return 1.0f;
    const float before = scaled;
    scaled = multiply_apart(largest, factor);
    return first ? 1.0f : exp2_near(add_apart(before, -scaled));
  }
  // What a weight's exponent is less; a number also while nothing is seen.
  SACCADE_DEVICE float base() const { return scaled == kUnseen ? 0.0f : scaled; }
};

SACCADE_DEVICE float weight_of(float score, float factor, float base) {
  return exp2_near(fmaf(score, factor, -base));
}

// As Join takes it.
struct Exp2 {
  SACCADE_DEVICE float operator()(float x) const { return exp2_near(x); }
};

// cap * tanh(score * scale / cap), within cap * 2^-20; `exponent`: 2 log2 e * scale / cap.
SACCADE_DEVICE float soft_capped(float score, float exponent, float cap) {
  const float power = exp2_near(multiply_apart(score, exponent));
  return fmaf(-2 * cap, divide_near(1.0f, add_apart(1.0f, power)), cap);
}

SACCADE_DEVICE float sum_of_quad(float x) {
#pragma unroll
  for (int mask = 1; mask <= 2; mask *= 2) x = add_apart(x, __shfl_xor_sync(kFullWarp, x, mask));
  return x;
}
SACCADE_DEVICE float max_of_quad(float x) {
#pragma unroll
  for (int mask = 1; mask <= 2; mask *= 2) x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, mask));
  return x;
}

SACCADE_DEVICE float sum_of_quarters(const float (&sums)[kKeyQuarters]) {
  return add_apart(add_apart(sums[0], sums[1]), add_apart(sums[2], sums[3]));
}

// What a row's sums are multiplied by at the end.
SACCADE_DEVICE float inverse_sum(float sum) { return sum > 0 ? divide_near(1.0f, sum) : 0.0f; }

}  // namespace saccade::cuda
