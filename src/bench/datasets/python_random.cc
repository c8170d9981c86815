#include "bench/datasets/python_random.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace saccade::bench {
namespace {

constexpr std::size_t kSize = 624;
constexpr std::size_t kMiddle = 397;

std::array<std::uint32_t, kSize> init_by_number(std::uint32_t seed) {
  std::array<std::uint32_t, kSize> state;
  state[0] = seed;
  for (std::uint32_t i = 1; i < kSize; ++i)
    state[i] = 1812433253U * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
  return state;
}

}  // namespace

// init_by_array of Matsumoto and Nishimura; the key is the integer in 32-bit digits, low first.
PythonRandom::PythonRandom(std::uint64_t seed) : state_(init_by_number(19650218U)) {
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed),
                                            static_cast<std::uint32_t>(seed >> 32)};
  const std::size_t key_size = key[1] != 0 ? 2 : 1;
  const auto mixed = [&](std::size_t i) { return state_[i - 1] ^ (state_[i - 1] >> 30); };
  std::size_t i = 1;
  const auto advance = [&] {
    if (++i < kSize) return;
    state_[0] = state_[kSize - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < kSize; ++k) {
    const std::size_t j = k % key_size;
    state_[i] = (state_[i] ^ (mixed(i) * 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
    advance();
  }
  for (std::size_t k = 0; k + 1 < kSize; ++k) {
    state_[i] = (state_[i] ^ (mixed(i) * 1566083941U)) - static_cast<std::uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::regenerate() {
  for (std::size_t i = 0; i < kSize; ++i) {
    const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kSize] & 0x7fffffffU);
    state_[i] = state_[(i + kMiddle) % kSize] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfU : 0);
  }
  used_ = 0;
}

std::uint32_t PythonRandom::next_word() {
  if (used_ == kSize) regenerate();
  std::uint32_t y = state_[used_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

double PythonRandom::random() {
  const double high = next_word() >> 5;
  const double low = next_word() >> 6;
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

std::uint64_t PythonRandom::bits(int count) {
  CHECK(count >= 1 && count <= 64, "{} bits", count);
  if (count <= 32) return next_word() >> (32 - count);
  const std::uint64_t low = next_word();
  return low | (static_cast<std::uint64_t>(next_word() >> (64 - count)) << 32);
}

std::uint64_t PythonRandom::below(std::uint64_t bound) {
  CHECK(bound > 0);
  const int width = static_cast<int>(std::bit_width(bound));
  std::uint64_t drawn = bits(width);
  while (drawn >= bound) drawn = bits(width);
  return drawn;
}

std::int64_t PythonRandom::randint(std::int64_t low, std::int64_t high) {
  CHECK(low <= high, "randint({}, {})", low, high);
  const std::uint64_t width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return low + static_cast<std::int64_t>(below(width + 1));
}

std::size_t PythonRandom::choice_with_replacement(std::size_t count) {
  CHECK(count > 0);
  return static_cast<std::size_t>(std::floor(random() * static_cast<double>(count)));
}

}  // namespace saccade::bench
