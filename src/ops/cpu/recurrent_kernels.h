// The loops of layers with a recurrent state, for a vector type V. Tokens come one after the other,
// so that what a row gets never depends on how its sequence is cut.
#pragma once

#include "ops/cpu/row_kernels.h"

namespace saccade::cpu {

template <typename V>
struct Recurrent {
  using F = typename V::F;
  using M = Math<V>;
  using R = Rows<V>;
  static constexpr Index kLanes = V::kLanes;
  static constexpr Index kMaxTaps = 8;

  static void unit_row(float* x, float epsilon, float scale, Index cols) {
    const float squares = R::sum_row(x, cols, [](F value) { return value * value; });
    const F factor = V::set(scale / __builtin_sqrtf(squares + epsilon));
    R::each(cols, [&](Index col, int count) {
      R::store(x + col, R::load(x + col, count) * factor, count);
    });
  }

  static void causal_conv(const ConvArgs& args) {
    with_activation(args.activation, [&]<Activation kActivation>() {
      R::each(args.cols, [&](Index col, int count) { conv<kActivation>(args, col, count); });
    });
  }

  static void delta_rule(const DeltaArgs& args) {
    const int count = static_cast<int>(args.cols);
    float* const s = args.work;
    for (Index dim = 0; dim < args.key_dim; ++dim)
      V::store(s + dim * kLanes,
               args.fresh ? V::zero() : R::load(args.state + dim * args.state_stride, count));
    for (Index row = 0; row < args.rows; ++row) {
      const float* const q = args.q + row * args.q_stride;
      const float* const k = args.k + row * args.k_stride;
      const F decay = V::set(args.decay[row * args.gate_stride]);
      const F beta = V::set(args.beta[row * args.gate_stride]);
      const F known = decay * weigh(s, k, args.key_dim);
      const F delta = (R::load(args.v + row * args.v_stride, count) - known) * beta;
      F sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
      Index dim = 0;
      for (; dim + 4 <= args.key_dim; dim += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum[i] = step(s, q, k, dim + i, decay, delta, sum[i]);
      }
      for (; dim < args.key_dim; ++dim) sum[0] = step(s, q, k, dim, decay, delta, sum[0]);
      R::store(args.out + row * args.out_stride, (sum[0] + sum[1]) + (sum[2] + sum[3]), count);
    }
    for (Index dim = 0; dim < args.key_dim; ++dim)
      R::store(args.state + dim * args.state_stride, V::load(s + dim * kLanes), count);
  }

 private:
  // One vector of columns.
  template <Activation kActivation>
  static void conv(const ConvArgs& args, Index col, int count) {
    const Index kept = args.taps - 1;
    F weight[kMaxTaps];
    F window[kMaxTaps];  // the rows before, oldest first, and at `kept` the row itself
    for (Index tap = 0; tap < args.taps; ++tap)
      weight[tap] = R::load(args.weight + tap * args.weight_stride + col, count);
    for (Index i = 0; i < kept; ++i)
      window[i] = args.fresh ? V::zero() : R::load(args.state + i * args.state_stride + col, count);
    for (Index row = 0; row < args.rows; ++row) {
      window[kept] = R::load(args.x + row * args.x_stride + col, count);
      F sum = window[0] * weight[0];
      for (Index tap = 1; tap < args.taps; ++tap) sum = V::fma(window[tap], weight[tap], sum);
      R::store(args.out + row * args.out_stride + col, M::template activate<kActivation>(sum),
               count);
      for (Index i = 0; i < kept; ++i) window[i] = window[i + 1];
    }
    for (Index i = 0; i < kept; ++i)
      R::store(args.state + i * args.state_stride + col, window[i], count);
  }

  // The sum of the state's rows, each times its element of k.
  static F weigh(const float* s, const float* k, Index key_dim) {
    F sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
    Index dim = 0;
    for (; dim + 4 <= key_dim; dim += 4) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        sum[i] = V::fma(V::load(s + (dim + i) * kLanes), V::set(k[dim + i]), sum[i]);
    }
    for (; dim < key_dim; ++dim) sum[0] = V::fma(V::load(s + dim * kLanes), V::set(k[dim]), sum[0]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }

  // A row of the state gets its token; returns `sum` and what the query sees of it.
  static F step(float* s, const float* q, const float* k, Index dim, F decay, F delta, F sum) {
    const F next = V::fma(delta, V::set(k[dim]), V::load(s + dim * kLanes) * decay);
    V::store(s + dim * kLanes, next);
    return V::fma(next, V::set(q[dim]), sum);
  }
};

}  // namespace saccade::cpu
