#include "model/dummies/random_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/hash.h"
#include "base/rng.h"
#include "tensor/dtype.h"

namespace saccade {
namespace {

// Uniform in [center - reach, center + reach]. Matrices have unit gain, so that activations keep
// their size through any number of layers.
struct Fill {
  float center = 0;
  float reach = 0;
};

Fill fill_of(const TensorSpec& spec) {
  switch (spec.kind) {
    case TensorKind::kNorm:
      return {1, 0.1f};
    case TensorKind::kBias:
      return {0, 0.1f};
    case TensorKind::kEmbedding:
      return {0, 1};
    case TensorKind::kExperts:
    case TensorKind::kMatrix:
      break;
  }
  const double inputs =
      spec.kind == TensorKind::kExperts
          ? static_cast<double>(spec.shape[1])
          : static_cast<double>(element_count(spec)) / static_cast<double>(spec.shape[0]);
  return {0, static_cast<float>(std::sqrt(3 / inputs))};
}

}  // namespace

std::size_t element_count(const TensorSpec& spec) {
  return std::accumulate(spec.shape.begin(), spec.shape.end(), std::size_t{1},
                         [](std::size_t product, std::int64_t extent) {
                           return product * static_cast<std::size_t>(extent);
                         });
}

void fill_random(const TensorSpec& spec, std::uint64_t seed, std::size_t block,
                 std::span<std::uint16_t> out) {
  const Fill fill = fill_of(spec);
  Rng rng(hash_combine(hash64(spec.name, seed), block));
  for (std::size_t i = 0; i < out.size(); i += 4) {
    std::uint64_t bits = rng();
    for (std::size_t j = i; j < std::min(i + 4, out.size()); ++j, bits >>= 16) {
      const auto sixteen = static_cast<std::int16_t>(bits & 0xffff);
      out[j] = to_bf16(fill.center + fill.reach * static_cast<float>(sixteen) * 0x1.0p-15f).bits;
    }
  }
}

}  // namespace saccade
