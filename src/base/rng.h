// Seeded random numbers. Xoshiro256** for the engine and tests; where a seed document fixes the
// generator, that file uses std::mt19937 itself.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "base/hash.h"

namespace saccade {

// xoshiro256** 1.0 (Blackman, Vigna), seeded through splitmix64. A UniformRandomBitGenerator. One
// thread.
class Rng {
 public:
  using result_type = std::uint64_t;
  explicit Rng(std::uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9e3779b97f4a7c15ULL;
      word = mix64(seed);
    }
  }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  result_type operator()() {
    const auto rotate = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  // Uniform in [0, bound); bound > 0. The bias of the multiply-shift is below 2^-32 for bounds
  // under 2^32.
  std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace saccade
