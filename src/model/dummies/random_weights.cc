#include "model/dummies/random_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/hash.h"
#include "tensor/dtype.h"

namespace saccade {

std::size_t element_count(const TensorSpec& spec) {
  return std::accumulate(spec.shape.begin(), spec.shape.end(), std::size_t{1},
                         [](std::size_t product, std::int64_t extent) {
                           return product * static_cast<std::size_t>(extent);
                         });
}

// Matrices have unit gain, so that activations keep their size through any number of layers.
DummyValues dummy_values(const TensorSpec& spec, std::uint64_t seed) {
  const std::uint64_t key = hash64(spec.name, seed);
  switch (spec.kind) {
    case TensorKind::kNorm:
      return {key, 1, 0.1f};
    case TensorKind::kBias:
      return {key, 0, 0.1f};
    case TensorKind::kEmbedding:
      return {key, 0, 1};
    case TensorKind::kExperts:
    case TensorKind::kMatrix:
      break;
  }
  const double inputs =
      spec.kind == TensorKind::kExperts
          ? static_cast<double>(spec.shape[1])
          : static_cast<double>(element_count(spec)) / static_cast<double>(spec.shape[0]);
  return {key, 0, static_cast<float>(std::sqrt(3 / inputs))};
}

void fill_random(const TensorSpec& spec, std::uint64_t seed, std::size_t block,
                 std::span<std::uint16_t> out) {
  const DummyValues made = dummy_values(spec, seed);
  const std::size_t first = block * kRandomBlock;
  static_assert(kRandomBlock % 4 == 0);
  for (std::size_t i = 0; i < out.size(); i += 4) {
    std::uint64_t bits = dummy_word(made.key, (first + i) / 4);
    for (std::size_t j = i; j < std::min(i + 4, out.size()); ++j, bits >>= 16)
      out[j] = to_bf16(dummy_of(made, bits)).bits;
  }
}

}  // namespace saccade
