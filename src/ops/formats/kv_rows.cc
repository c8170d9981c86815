#include "ops/formats/kv_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/formats/int8_rows.h"

namespace saccade {
namespace {

constexpr float kMaxE4m3 = 448.0F;

float round_to_e4m3(std::span<const float> row, std::span<std::uint8_t> codes) {
  float most = 0;
  bool finite = true;
  for (const float value : row) {
    finite = finite && std::isfinite(value);
    most = std::max(most, std::abs(value));
  }
  if (!finite || most < kInt8Least) {
    std::ranges::fill(codes, std::uint8_t{0});
    return finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = kMaxE4m3 / most;
  for (std::size_t i = 0; i < row.size(); ++i) codes[i] = to_e4m3(row[i] * inverse).bits;
  return most / kMaxE4m3;
}

}  // namespace

float round_kv_row(std::span<const float> row, DType cache, std::span<std::uint8_t> codes) {
  CHECK(row.size() == codes.size(), "{} codes of {} numbers", codes.size(), row.size());
  if (cache == DType::kE4m3) return round_to_e4m3(row, codes);
  CHECK(cache == DType::kI8, "codes of {}", name_of(cache));
  return round_activations(row, {reinterpret_cast<std::int8_t*>(codes.data()), codes.size()});
}

}  // namespace saccade
