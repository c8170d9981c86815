// Dummy weights, computed instead of read: any element of a tensor by itself, so that a kernel of
// a device, a thread of the host and the writer of a checkpoint give the same bits.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SACCADE_DUMMY __host__ __device__
#else
#define SACCADE_DUMMY
#endif

namespace saccade {

// Uniform in [center - reach, center + reach). A tensor's values are these, rounded to bf16.
struct DummyValues {
  std::uint64_t key = 0;
  float center = 0;
  float reach = 0;

  bool operator==(const DummyValues&) const = default;
};

// The stream of splitmix64 that begins at `key`: its word w has the sixteen bits of elements
// [4 w, 4 w + 4), the first in its lowest.
SACCADE_DUMMY constexpr std::uint64_t dummy_word(std::uint64_t key, std::uint64_t word) {
  std::uint64_t x = key + (word + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The product is rounded, and the sum after it: compilers must not make one operation of the two
// (-ffp-contract=off, -fmad=false), which would round the sums of center != 0 once.
SACCADE_DUMMY constexpr float dummy_of(const DummyValues& made, std::uint64_t bits) {
  const auto sixteen = static_cast<std::int16_t>(bits & 0xffff);
  return made.center + made.reach * static_cast<float>(sixteen) * 0x1.0p-15f;
}

SACCADE_DUMMY constexpr float dummy_value(const DummyValues& made, std::int64_t element) {
  const auto at = static_cast<std::uint64_t>(element);
  return dummy_of(made, dummy_word(made.key, at / 4) >> (at % 4 * 16));
}

}  // namespace saccade
