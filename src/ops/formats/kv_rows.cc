#include "ops/formats/kv_rows.h"

#include <algorithm>
#include <cmath>

#include "ops/formats/e4m3_rows.h"
#include "ops/formats/int8_rows.h"

namespace saccade {
namespace {

// Other codes than round_to_e4m3()'s: values are multiplied by 448 / largest, not divided by
// largest / 448.
float round_kv_to_e4m3(std::span<const float> row, std::span<std::uint8_t> codes) {
  const float most = largest_magnitude(row);
  if (!(most >= kInt8Least)) {
    std::ranges::fill(codes, std::uint8_t{0});
    return std::isnan(most) ? most : 0.0F;
  }
  const float inverse = kMaxE4m3 / most;
  for (std::size_t i = 0; i < row.size(); ++i) codes[i] = to_e4m3(row[i] * inverse).bits;
  return most / kMaxE4m3;
}

}  // namespace

float round_kv_row(std::span<const float> row, DType cache, std::span<std::uint8_t> codes) {
  CHECK(row.size() == codes.size(), "{} codes of {} numbers", codes.size(), row.size());
  if (cache == DType::kE4m3) return round_kv_to_e4m3(row, codes);
  CHECK(cache == DType::kI8, "codes of {}", name_of(cache));
  return round_activations(row, {reinterpret_cast<std::int8_t*>(codes.data()), codes.size()});
}

}  // namespace saccade
