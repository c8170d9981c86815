// The loops over one row of activations, for a vector type V. All are bound by memory, so each
// makes as few passes as its definition allows; sums run in a fixed order that depends on the
// row's length alone.
#pragma once

#include "ops/cpu/simd/vec_math.h"

namespace saccade::cpu {

template <typename V>
struct Rows {
  using F = typename V::F;
  using M = Math<V>;
  static constexpr Index kLanes = V::kLanes;

  // body(col, count) over whole vectors, then once over what is left.
  template <typename Body>
  static void each(Index cols, const Body& body) {
    Index col = 0;
    for (; col + kLanes <= cols; col += kLanes) body(col, static_cast<int>(kLanes));
    if (col < cols) body(col, static_cast<int>(cols - col));
  }
  template <typename T>
  static F load(const T* p, int count) {
    return count == V::kLanes ? V::load(p) : V::load_first(p, count);
  }
  template <typename T>
  static void store(T* p, F a, int count) {
    if (count == V::kLanes)
      V::store(p, a);
    else
      V::store_first(p, a, count);
  }

  // Sum of term(x) over a row: four running vectors hide the latency of the addition.
  template <typename Term>
  static float sum_row(const float* x, Index cols, const Term& term) {
    F sum[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
    Index col = 0;
    for (; col + 4 * kLanes <= cols; col += 4 * kLanes) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[i] = sum[i] + term(V::load(x + col + i * kLanes));
    }
    for (; col + kLanes <= cols; col += kLanes) sum[0] = sum[0] + term(V::load(x + col));
    if (col < cols) {
      const int count = static_cast<int>(cols - col);
      const F inside = V::set(static_cast<float>(count));
      const F last = term(V::load_first(x + col, count));
      sum[1] = sum[1] + V::select(V::less(V::iota(), inside), last, V::zero());
    }
    return V::sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }

  static void finish_row(const FinishArgs& args) {
    with_activation(args.activation, [&]<Activation kActivation>() {
      each(args.cols, [&](Index col, int count) {
        F y = load(args.c + col, count);
        if (args.bias != nullptr) y = y + load(args.bias + col, count);
        y = M::template activate<kActivation>(y);
        if (args.residual != nullptr) y = y + load(args.residual + col, count);
        store(args.y + col, y, count);
      });
    });
  }

  static void norm_row(const NormRowArgs& args) {
    float* x = args.x;
    if (args.add != nullptr) add_row(args.add, 1.0f, x, args.cols);
    const float per_col = 1.0f / static_cast<float>(args.cols);
    const float mean =
        args.subtract_mean ? sum_row(x, args.cols, [](F value) { return value; }) * per_col : 0.0f;
    const F center = V::set(mean);
    const float squares = sum_row(x, args.cols, [&](F value) {
      const F centered = value - center;
      return centered * centered;
    });
    const F scale = V::set(1.0f / __builtin_sqrtf(squares * per_col + args.epsilon));
    const F offset = V::set(args.weight_offset);
    each(args.cols, [&](Index col, int count) {
      const F weight = offset + load(args.weight + col, count);
      F y = (load(x + col, count) - center) * scale * weight;
      if (args.bias != nullptr) y = y + load(args.bias + col, count);
      store(args.out + col, y, count);
    });
  }

  static void rope_head(float* x, const float* cos, const float* sin, Index pairs) {
    each(pairs, [&](Index pair, int count) {
      const F a = load(x + pair, count);
      const F b = load(x + pairs + pair, count);
      const F c = load(cos + pair, count);
      const F s = load(sin + pair, count);
      store(x + pair, V::fma(a, c, V::zero() - b * s), count);
      store(x + pairs + pair, V::fma(b, c, a * s), count);
    });
  }

  static void gated_row(const float* gate, const float* up, Activation activation, float* out,
                        Index cols) {
    with_activation(activation, [&]<Activation kActivation>() {
      each(cols, [&](Index col, int count) {
        const F g = M::template activate<kActivation>(load(gate + col, count));
        store(out + col, g * load(up + col, count), count);
      });
    });
  }

  static void add_row(const float* x, float scale, float* y, Index cols) {
    const F s = V::set(scale);
    each(cols, [&](Index col, int count) {
      store(y + col, V::fma(load(x + col, count), s, load(y + col, count)), count);
    });
  }

  static void mix_row(const float* x, float scale, bool accumulate, float* out, Index cols) {
    const F s = V::set(scale);
    each(cols, [&](Index col, int count) {
      const F value = load(x + col, count) * s;
      store(out + col, accumulate ? load(out + col, count) + value : value, count);
    });
  }

  static void softcap_row(float* x, float cap, Index cols) {
    const F c = V::set(cap);
    each(cols, [&](Index col, int count) {
      store(x + col, c * M::tanh(load(x + col, count) / c), count);
    });
  }

  static PartialStats stats_row(const float* x, Index cols) {
    const F lowest = V::set(-__builtin_inff());
    F max = lowest;
    each(cols, [&](Index col, int count) {
      F value = load(x + col, count);
      if (count < V::kLanes)
        value = V::select(V::less(V::iota(), V::set(static_cast<float>(count))), value, lowest);
      max = V::max(value, max);  // NaN loses
    });
    PartialStats stats;
    stats.max = V::largest(max);
    for (Index col = 0; col < cols; col += kLanes) {
      const int count = static_cast<int>(cols - col < kLanes ? cols - col : kLanes);
      unsigned hits = V::bits(V::equal(load(x + col, count), V::set(stats.max)));
      hits &= (1U << count) - 1;
      if (hits != 0) {
        stats.argmax = col + __builtin_ctz(hits);
        break;
      }
    }
    // Of nothing but -infinity, the sum is 0 (and NaN shows).
    const F shift = V::set(stats.max > -__builtin_inff() ? stats.max : 0.0f);
    stats.sum_exp = sum_row(x, cols, [&](F value) { return M::exp(value - shift); });
    return stats;
  }

  template <typename From, typename To>
  static void convert(const From* from, To* to, float scale, Index cols) {
    const F s = V::set(scale);
    each(cols, [&](Index col, int count) { store(to + col, load(from + col, count) * s, count); });
  }
  template <typename From>
  static void convert_from(const From* from, void* to, DType to_type, float scale, Index cols) {
    if (to_type == DType::kBf16) return convert(from, static_cast<Bf16*>(to), scale, cols);
    if (to_type == DType::kF16) return convert(from, static_cast<F16*>(to), scale, cols);
    convert(from, static_cast<float*>(to), scale, cols);
  }
  // What a code stands for is a number of bf16, and nothing is left to be rounded.
  template <typename Code>
  static void decode(const Code* from, Bf16* to, Index cols) {
    each(cols, [&](Index col, int count) {
      const F value = load(from + col, count);
      if (count == V::kLanes)
        V::store_exact(to + col, value);
      else
        V::store_first_exact(to + col, value, count);
    });
  }
  static void convert_row(const void* from, DType from_type, void* to, DType to_type, float scale,
                          Index cols) {
    if (to_type == DType::kBf16 && scale == 1.0f) {
      if (from_type == DType::kI8)
        return decode(static_cast<const std::int8_t*>(from), static_cast<Bf16*>(to), cols);
      if (from_type == DType::kE4m3)
        return decode(static_cast<const E4m3*>(from), static_cast<Bf16*>(to), cols);
    }
    if (from_type == DType::kBf16)
      return convert_from(static_cast<const Bf16*>(from), to, to_type, scale, cols);
    if (from_type == DType::kF16)
      return convert_from(static_cast<const F16*>(from), to, to_type, scale, cols);
    if (from_type == DType::kI8)
      return convert_from(static_cast<const std::int8_t*>(from), to, to_type, scale, cols);
    if (from_type == DType::kE4m3)
      return convert_from(static_cast<const E4m3*>(from), to, to_type, scale, cols);
    convert_from(static_cast<const float*>(from), to, to_type, scale, cols);
  }

  template <typename From>
  static void accumulate(const From* x, float* out, Index cols) {
    each(cols, [&](Index col, int count) {
      store(out + col, load(out + col, count) + load(x + col, count), count);
    });
  }
  static void accumulate_row(const void* x, DType type, float* out, Index cols) {
    if (type == DType::kBf16) return accumulate(static_cast<const Bf16*>(x), out, cols);
    if (type == DType::kF16) return accumulate(static_cast<const F16*>(x), out, cols);
    accumulate(static_cast<const float*>(x), out, cols);
  }
};

}  // namespace saccade::cpu
