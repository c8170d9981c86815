#include "ops/formats/e4m3_rows.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/formats/int8_rows.h"
#include "tensor/dtype.h"

namespace saccade {

float round_to_e4m3(std::span<const float> row, std::span<std::uint8_t> codes, float given) {
  CHECK(row.size() == codes.size(), "{} codes of {} numbers", codes.size(), row.size());
  const float most = largest_magnitude(row);
  if (!(most >= kInt8Least)) {
    std::ranges::fill(codes, std::uint8_t{0});
    return std::isnan(most) ? most : given;
  }
  const float scale = given > 0 ? given : most / kMaxE4m3;
  for (std::size_t i = 0; i < row.size(); ++i) codes[i] = to_e4m3(row[i] / scale).bits;
  return scale;
}

}  // namespace saccade
