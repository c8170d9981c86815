#include "model/position_grid.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace saccade {
namespace {

// Four neighbours and their weights.
struct Taps {
  std::array<std::int64_t, 4> at{};
  std::array<float, 4> weight{};
};

Taps taps_of(std::int64_t index, std::int64_t from, std::int64_t to) {
  constexpr float kA = -0.75f;
  const auto near = [](float x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](float x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  const float x = scale * (static_cast<float>(index) + 0.5f) - 0.5f;
  const float floor = std::floor(x);
  const float t = x - floor;
  Taps taps;
  for (std::int64_t i = 0; i < 4; ++i)
    taps.at[static_cast<std::size_t>(i)] =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) - 1 + i, 0, from - 1);
  taps.weight = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  return taps;
}

}  // namespace

std::vector<float> resample_positions(const std::vector<float>& rows, std::int64_t from,
                                      std::int64_t to, std::int64_t width) {
  CHECK(static_cast<std::int64_t>(rows.size()) == from * from * width, "{} values of {}x{}x{}",
        rows.size(), from, from, width);
  if (from == to) return rows;
  std::vector<float> out(static_cast<std::size_t>(to * to * width));
  for (std::int64_t y = 0; y < to; ++y) {
    const Taps down = taps_of(y, from, to);
    for (std::int64_t x = 0; x < to; ++x) {
      const Taps across = taps_of(x, from, to);
      float* into = out.data() + (y * to + x) * width;
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
          const float weight = down.weight[i] * across.weight[j];
          const float* row = rows.data() + (down.at[i] * from + across.at[j]) * width;
          for (std::int64_t c = 0; c < width; ++c) into[c] += weight * row[c];
        }
      }
    }
  }
  return out;
}

}  // namespace saccade
