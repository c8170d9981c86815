#include "model/quantization/byte_rounding.h"

#include "model/quantization/matrix_rows.h"
#include "ops/formats/int8_rows.h"

namespace saccade {

RoundedBytes::RoundedBytes(const StoredMatrix& weights, ThreadPool& pool)
    : codes_(static_cast<std::size_t>(weights.out() * weights.in())),
      scales_(static_cast<std::size_t>(weights.out())) {
  each_row(weights, pool, [this](std::int64_t row, std::span<const float> values, int) {
    const auto at = static_cast<std::size_t>(row);
    scales_[at] =
        round_weights(values, std::span(codes_).subspan(at * values.size(), values.size()));
  });
}

}  // namespace saccade
