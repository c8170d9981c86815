#include "ops/formats/dummy_rows.h"

#include <algorithm>
#include <bit>

namespace saccade {
namespace {

// Finite numbers alone: what is made up has no infinities.
float to_bf16_and_back(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + (bits >> 16 & 1U)) & 0xffff0000U);
}

constexpr std::int64_t kElements = 4;  // of a word
constexpr std::int64_t kWords = 16;    // at a time

// kWords whole words: loops of one kind each, which compilers make vectors of.
void make_block(const DummyValues& made, std::uint64_t word, float* into) {
  std::uint64_t words[kWords];
  for (std::int64_t i = 0; i < kWords; ++i)
    words[i] = dummy_word(made.key, word + static_cast<std::uint64_t>(i));
  for (std::int64_t i = 0; i < kWords; ++i) {
    for (std::int64_t j = 0; j < kElements; ++j)
      into[i * kElements + j] = to_bf16_and_back(dummy_of(made, words[i] >> (16 * j)));
  }
}

}  // namespace

void make_dummy_values(const DummyValues& made, std::int64_t first, std::span<float> into) {
  const auto count = static_cast<std::int64_t>(into.size());
  std::int64_t at = 0;
  const auto one_by_one = [&](std::int64_t end) {
    for (; at < end; ++at)
      into[static_cast<std::size_t>(at)] = to_bf16_and_back(dummy_value(made, first + at));
  };
  one_by_one(std::min(count, (kElements - first % kElements) % kElements));
  for (; at + kWords * kElements <= count; at += kWords * kElements)
    make_block(made, static_cast<std::uint64_t>(first + at) / kElements, into.data() + at);
  one_by_one(count);
}

}  // namespace saccade
