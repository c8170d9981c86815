// The values of made-up weights: any block of any tensor by itself, on any thread, in bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/checkpoint/weights.h"
#include "ops/formats/dummy_values.h"

namespace saccade {

constexpr std::size_t kRandomBlock = std::size_t{1} << 18;  // elements that are made together
constexpr std::uint64_t kDummySeed = 0;                     // where nobody gives one

std::size_t element_count(const TensorSpec& spec);

// Its elements, which follow from its name, its kind and the seed.
DummyValues dummy_values(const TensorSpec& spec, std::uint64_t seed);

// Elements [block * kRandomBlock, + out.size()) of the tensor.
void fill_random(const TensorSpec& spec, std::uint64_t seed, std::size_t block,
                 std::span<std::uint16_t> out);

}  // namespace saccade
