// Sixteen bytes as the compiler's generic vectors: products of bytes for machines without better.
#pragma once

#include <cstring>

#include "ops/cpu/simd/vec_portable.h"

namespace saccade::cpu {

struct BytesPortable {
  using I = std::int32_t __attribute__((vector_size(16)));
  using B = std::int16_t __attribute__((vector_size(16)));  // pairs of bytes
  static constexpr int kTileRows = 4;
  static constexpr std::uint8_t kOffset = 0;
  static constexpr bool kPairSums = false;

  static void pin(I&) {}
  static I load(const std::int32_t* p) { return copy_of<I>(p); }
  static B load(const std::int8_t* p) { return copy_of<B>(p); }
  static void store(std::int32_t* p, I a) { std::memcpy(p, &a, sizeof(a)); }
  static B broadcast(const std::uint8_t* p) {
    std::int32_t four;
    std::memcpy(&four, p, sizeof(four));
    return reinterpret_cast<B>(I{four, four, four, four});
  }
  // Two products of codes up to 127 fit sixteen bits.
  static I dot(I sum, B x, B w) {
    const B pairs = (x << 8 >> 8) * (w << 8 >> 8) + (x >> 8) * (w >> 8);
    const I both = reinterpret_cast<I>(pairs);
    return sum + (both << 16 >> 16) + (both >> 16);
  }
  // Of codes of four bits, a byte each.
  static B low_nibbles(B a) { return a & 0x0f0f; }
  static B high_nibbles(B a) { return a >> 4 & 0x0f0f; }
  static I widen(const std::uint8_t* p) { return I{p[0], p[1], p[2], p[3]}; }
  static I minus_product(I a, std::int32_t b) { return a * -b; }
  static I plus_product(I sum, I a, I b) { return sum + a * b; }
  static I set(std::int32_t a) { return I{a, a, a, a}; }
  static VecPortable::F to_float(I a) { return __builtin_convertvector(a, VecPortable::F); }
  static void store_low_bytes(std::uint8_t* p, VecPortable::F a, std::uint8_t offset, int count) {
    const I bits = reinterpret_cast<I>(a);
    for (int i = 0; i < count; ++i) p[i] = static_cast<std::uint8_t>(bits[i] + offset);
  }

 private:
  template <typename T>
  static T copy_of(const void* p) {
    T a;
    std::memcpy(&a, p, sizeof(a));
    return a;
  }
};

}  // namespace saccade::cpu
