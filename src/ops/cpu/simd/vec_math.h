// exp, tanh, erf and the activations over a vector type V (vec_*.h). The polynomials are minimax
// fits made for this file; errors stay within 2 ulp of the exact function (3 for tanh), which
// row_ops_test.cc checks through the ops.
#pragma once

#include "ops/cpu/isa/kernels.h"

namespace saccade::cpu {

template <typename V>
struct Math {
  using F = typename V::F;

  // c0 + c1 x + c2 x^2 ...
  template <int Terms>
  static F polynomial(F x, const float (&c)[Terms]) {
    F sum = V::set(c[Terms - 1]);
#pragma GCC unroll 8
    for (int i = Terms - 2; i >= 0; --i) sum = V::fma(sum, x, V::set(c[i]));
    return sum;
  }

  // exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. Infinity above 88.73. Below -87.3
  // the result stays at 1.2e-38, the least normal number: results below it would cost the processor
  // 150 cycles each, and attention has many.
  static F exp(F x) {
    constexpr float kP[] = {4.999999404e-01f, 1.666652113e-01f, 4.166838899e-02f, 8.368710056e-03f,
                            1.381461043e-03f};
    // min and max return their second operand when either is NaN: NaN passes through.
    const F inside = V::min(V::set(150.0f), V::max(V::set(-87.3f), x));
    const F n = V::round(inside * V::set(1.442695041f));
    // ln 2 in two parts; n has few bits, so n * high is exact.
    F r = V::fma(n, V::set(-0.693359375f), inside);
    r = V::fma(n, V::set(2.12194440e-4f), r);
    const F e = V::fma(r * r, polynomial(r, kP), r) + V::set(1.0f);
    return V::times_power_of_two(e, n);
  }

  static F tanh(F x) {
    constexpr float kQ[] = {-3.333328068e-01f, 1.333144158e-01f, -5.373971164e-02f,
                            2.063907869e-02f, -5.704978481e-03f};
    const F size = V::abs(x);
    const F square = x * x;
    const F small = V::fma(x * square, polynomial(square, kQ), x);
    const F large = V::set(1.0f) - V::set(2.0f) / (exp(size + size) + V::set(1.0f));
    const F sign_large = V::select(V::less(x, V::zero()), V::zero() - large, large);
    return V::select(V::less(size, V::set(0.625f)), small, sign_large);
  }

  static F erf(F x) {
    constexpr float kP[] = {1.283791661e-01f,  -3.761262596e-01f, 1.128358543e-01f,
                            -2.685381100e-02f, 5.188327283e-03f,  -8.010191377e-04f,
                            7.853854186e-05f};
    // -log(erfc(x)) on [1, 4]; erf is 1 in f32 from 3.92 on.
    constexpr float kG[] = {3.415125830e-04f,  1.127089262e+00f, 6.381447315e-01f, 1.031068191e-01f,
                            -2.183809690e-02f, 2.947666682e-03f, -1.863800862e-04f};
    const F size = V::min(V::abs(x), V::set(4.0f));
    const F square = x * x;
    const F small = V::fma(x, polynomial(square, kP), x);
    const F large = V::set(1.0f) - exp(V::zero() - polynomial(size, kG));
    const F sign_large = V::select(V::less(x, V::zero()), V::zero() - large, large);
    return V::select(V::less(size, V::set(1.0f)), small, sign_large);
  }

  // x / (1 + exp(-slope x)).
  static F swish(F x, float slope) { return x / (V::set(1.0f) + exp(x * V::set(-slope))); }

  template <Activation kActivation>
  static F activate(F x) {
    if constexpr (kActivation == Activation::kGeluErf) {
      const F half = x * V::set(0.5f);
      return V::fma(half, erf(x * V::set(0.7071067812f)), half);
    } else if constexpr (kActivation == Activation::kGeluTanh) {
      const F inner = V::set(0.7978845608f) * V::fma(x * x * x, V::set(0.044715f), x);
      const F half = x * V::set(0.5f);
      return V::fma(half, tanh(inner), half);
    } else if constexpr (kActivation == Activation::kQuickGelu) {
      return swish(x, 1.702f);
    } else if constexpr (kActivation == Activation::kSilu) {
      return swish(x, 1.0f);
    } else if constexpr (kActivation == Activation::kRelu) {
      return V::max(x, V::zero());
    } else if constexpr (kActivation == Activation::kSigmoid) {
      return V::set(1.0f) / (V::set(1.0f) + exp(V::zero() - x));
    } else {
      return x;
    }
  }
};

// loop.template operator()<kActivation>() for the activation that is only known at run time.
template <typename Loop>
inline void with_activation(Activation activation, const Loop& loop) {
  switch (activation) {
    case Activation::kNone:
      return loop.template operator()<Activation::kNone>();
    case Activation::kGeluErf:
      return loop.template operator()<Activation::kGeluErf>();
    case Activation::kGeluTanh:
      return loop.template operator()<Activation::kGeluTanh>();
    case Activation::kQuickGelu:
      return loop.template operator()<Activation::kQuickGelu>();
    case Activation::kSilu:
      return loop.template operator()<Activation::kSilu>();
    case Activation::kRelu:
      return loop.template operator()<Activation::kRelu>();
    case Activation::kSigmoid:
      return loop.template operator()<Activation::kSigmoid>();
  }
}

}  // namespace saccade::cpu
