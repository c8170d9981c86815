// Four floats in the compiler's generic vector type: SSE2, NEON or plain code, as it sees fit.
#pragma once

#include <cmath>
#include <cstring>

#include "ops/cpu/isa/kernels.h"

namespace saccade::cpu {

struct VecPortable {
  using F = float __attribute__((vector_size(16)));  // + - * / work on it
  using Mask = std::int32_t __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kTileRows = 4;

  static void pin(F&) {}
  static F zero() { return F{}; }
  static F set(float x) { return F{x, x, x, x}; }
  static F fma(F a, F b, F c) { return a * b + c; }       // rounded twice
  static F max(F a, F b) { return select(a > b, a, b); }  // b where either is NaN
  static F min(F a, F b) { return select(a < b, a, b); }
  static F abs(F a) { return as_f(as_i(a) & 0x7fffffff); }
  static F round(F a) {  // to even; adding 1.5 * 2^23 leaves no bits for a fraction
    const F magic = set(12582912.0f);
    return select(abs(a) < set(4194304.0f), (a + magic) - magic, a);
  }
  // n integral, |n| <= 252. In two halves, since 2^n alone may overflow where a * 2^n does not.
  static F times_power_of_two(F a, F n) {
    const Mask whole = __builtin_convertvector(n, Mask);
    const Mask half = whole >> 1;
    return a * as_f((half + 127) << 23) * as_f((whole - half + 127) << 23);
  }
  static Mask less(F a, F b) { return a < b; }
  static Mask equal(F a, F b) { return a == b; }
  static Mask both(Mask a, Mask b) { return a & b; }
  static unsigned bits(Mask m) {
    unsigned set_bits = 0;
    for (int i = 0; i < kLanes; ++i) set_bits |= m[i] != 0 ? 1U << i : 0U;
    return set_bits;
  }
  static F select(Mask m, F yes, F no) { return as_f((as_i(yes) & m) | (as_i(no) & ~m)); }
  static F iota() { return F{0, 1, 2, 3}; }
  static float sum(F a) { return (a[0] + a[2]) + (a[1] + a[3]); }
  static float first(F a) { return a[0]; }
  static float largest(F a) {
    const float low = a[0] > a[1] ? a[0] : a[1];
    const float high = a[2] > a[3] ? a[2] : a[3];
    return low > high ? low : high;
  }

  static F load(const float* p) {
    F a;
    std::memcpy(&a, p, sizeof(a));
    return a;
  }
  static F load(const Bf16* p) { return F{to(p[0]), to(p[1]), to(p[2]), to(p[3])}; }
  static F load(const F16* p) { return F{to(p[0]), to(p[1]), to(p[2]), to(p[3])}; }
  static F load(const std::int8_t* p) { return F{to(p[0]), to(p[1]), to(p[2]), to(p[3])}; }
  static F load(const E4m3* p) { return F{to(p[0]), to(p[1]), to(p[2]), to(p[3])}; }
  static void store(float* p, F a) { std::memcpy(p, &a, sizeof(a)); }
  static void store(Bf16* p, F a) { store_first(p, a, kLanes); }
  static void store(F16* p, F a) { store_first(p, a, kLanes); }
  // Lanes that are bf16 values already.
  static void store_exact(Bf16* p, F a) { store_first_exact(p, a, kLanes); }

  // The first `count` lanes, 0 <= count <= kLanes; memory past them is not touched, lanes are 0.
  template <typename T>
  static F load_first(const T* p, int count) {
    F a{};
    for (int i = 0; i < count; ++i) a[i] = to(p[i]);
    return a;
  }
  static void store_first(float* p, F a, int count) {
    for (int i = 0; i < count; ++i) p[i] = a[i];
  }
  static void store_first(Bf16* p, F a, int count) {
    for (int i = 0; i < count; ++i) p[i] = to_bf16(a[i]);
  }
  static void store_first(F16* p, F a, int count) {
    for (int i = 0; i < count; ++i) p[i] = to_f16(a[i]);
  }
  static void store_first_exact(Bf16* p, F a, int count) {
    const Mask halves = as_i(a) >> 16;
    for (int i = 0; i < count; ++i) p[i].bits = static_cast<std::uint16_t>(halves[i]);
  }

  // Of four pairs of bf16, the first members, or the second.
  static F load_even(const Bf16* p) { return F{to(p[0]), to(p[2]), to(p[4]), to(p[6])}; }
  static F load_odd(const Bf16* p) { return F{to(p[1]), to(p[3]), to(p[5]), to(p[7])}; }

  // rows[i] lane j becomes rows[j] lane i.
  static void transpose(F (&rows)[4]) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < i; ++j) {
        const float swapped = rows[i][j];
        rows[i][j] = rows[j][i];
        rows[j][i] = swapped;
      }
    }
  }

 private:
  static float to(float x) { return x; }
  static float to(F16 x) { return to_float(x); }
  static float to(E4m3 x) { return to_float(x); }
  static float to(std::int8_t x) { return static_cast<float>(x); }
  static float to(Bf16 x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  static F as_f(Mask a) { return reinterpret_cast<F>(a); }
  static Mask as_i(F a) { return reinterpret_cast<Mask>(a); }
};

}  // namespace saccade::cpu
