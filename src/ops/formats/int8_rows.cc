#include "ops/formats/int8_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saccade {
namespace {

constexpr float kMagic = 12582912.0F;  // adding 1.5 * 2^23 leaves no bits for a fraction

float nearest(float value, float inverse) {
  return (std::clamp(value * inverse, -127.0F, 127.0F) + kMagic) - kMagic;
}

float squared_error(std::span<const float> row, float clip) {
  const float inverse = 127.0F / clip;
  const float scale = clip / 127.0F;
  float parts[16] = {};
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float error = row[i] - nearest(row[i], inverse) * scale;
    parts[i % 16] += error * error;
  }
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

// The scale of a row of which `clip` is the largest magnitude that is told apart.
float round_to(std::span<const float> row, float clip, std::span<std::int8_t> codes) {
  if (std::isnan(clip) || clip < kInt8Least) {
    std::ranges::fill(codes, std::int8_t{0});
    return std::isnan(clip) ? clip : 0.0F;
  }
  const float inverse = 127.0F / clip;
  for (std::size_t i = 0; i < row.size(); ++i)
    codes[i] = static_cast<std::int8_t>(nearest(row[i], inverse));
  return clip / 127.0F;
}

}  // namespace

float largest_magnitude(std::span<const float> row) {
  float most = 0;
  bool finite = true;
  for (const float value : row) {
    finite = finite && std::isfinite(value);
    most = std::max(most, std::abs(value));
  }
  return finite ? most : std::numeric_limits<float>::quiet_NaN();
}

float round_activations(std::span<const float> row, std::span<std::int8_t> codes) {
  return round_to(row, largest_magnitude(row), codes);
}

float round_weights(std::span<const float> row, std::span<std::int8_t> codes) {
  const float most = largest_magnitude(row);
  if (std::isnan(most) || most < kInt8Least) return round_to(row, most, codes);
  float best_clip = most;
  float best = std::numeric_limits<float>::infinity();
  int worse = 0;
  for (int i = 0; i < kInt8Clips && worse < kInt8ClipPatience; ++i) {
    const float clip = most * (1.0F - kInt8ClipStep * static_cast<float>(i));
    const float error = squared_error(row, clip);
    worse = error < best ? 0 : worse + 1;
    if (error < best) {
      best = error;
      best_clip = clip;
    }
  }
  return round_to(row, best_clip, codes);
}

}  // namespace saccade
