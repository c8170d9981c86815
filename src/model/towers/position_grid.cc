#include "model/towers/position_grid.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace saccade {
namespace {

// The two neighbours of one of `count` places on an axis of `side`.
struct Between {
  std::array<std::int64_t, 2> at{};
  std::array<float, 2> weight{};
};

Between between(std::int64_t index, std::int64_t count, std::int64_t side) {
  const float x = static_cast<float>(index) * static_cast<float>(side - 1) /
                  static_cast<float>(std::max<std::int64_t>(count - 1, 1));
  const float floor = std::floor(x);
  const auto first = static_cast<std::int64_t>(floor);
  return {{first, std::min(first + 1, side - 1)}, {1 - (x - floor), x - floor}};
}

// Bounds 1 / side, 2 / side, ... under 1, as torch.arange fills them: in pairs of blocks of eight,
// each from its own first, and one by one what is left.
std::vector<float> bucket_bounds(std::int64_t side) {
  constexpr std::int64_t kBlock = 8;
  const double step = 1.0 / static_cast<double>(side);
  const auto count = static_cast<std::int64_t>(std::ceil((1.0 - step) / step));
  std::vector<float> bounds;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool in_block = i < count / (2 * kBlock) * (2 * kBlock);
    const std::int64_t first = in_block ? i / kBlock * kBlock : i;
    const auto from = static_cast<float>(step + step * static_cast<double>(first));
    bounds.push_back(static_cast<float>(from + static_cast<double>(i - first) * step));
  }
  return bounds;
}

}  // namespace

CubicTaps cubic_taps(std::int64_t index, std::int64_t from, std::int64_t to) {
  constexpr float kA = -0.75f;
  const auto near = [](float x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](float x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  const float x = scale * (static_cast<float>(index) + 0.5f) - 0.5f;
  const float floor = std::floor(x);
  const float t = x - floor;
  CubicTaps taps;
  for (std::int64_t i = 0; i < 4; ++i)
    taps.at[static_cast<std::size_t>(i)] =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) - 1 + i, 0, from - 1);
  taps.weight = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  return taps;
}

std::vector<float> resample_positions(const std::vector<float>& rows, std::int64_t from,
                                      std::int64_t to, std::int64_t width) {
  CHECK(static_cast<std::int64_t>(rows.size()) == from * from * width, "{} values of {}x{}x{}",
        rows.size(), from, from, width);
  if (from == to) return rows;
  std::vector<float> out(static_cast<std::size_t>(to * to * width));
  for (std::int64_t y = 0; y < to; ++y) {
    const CubicTaps down = cubic_taps(y, from, to);
    for (std::int64_t x = 0; x < to; ++x) {
      const CubicTaps across = cubic_taps(x, from, to);
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

void add_bilinear_taps(std::int64_t row, std::int64_t height, std::int64_t column,
                       std::int64_t width, std::int64_t side, PositionTaps& taps) {
  const Between down = between(row, height, side);
  const Between across = between(column, width, side);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 2; ++j) {
      taps.rows.push_back(static_cast<std::int32_t>(down.at[i] * side + across.at[j]));
      taps.weights.push_back(down.weight[i] * across.weight[j]);
    }
  }
}

void add_bicubic_taps(std::int64_t row, std::int64_t height, std::int64_t column,
                      std::int64_t width, std::int64_t side, PositionTaps& taps) {
  const CubicTaps down = cubic_taps(row, side, height);
  const CubicTaps across = cubic_taps(column, side, width);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      taps.rows.push_back(static_cast<std::int32_t>(down.at[i] * side + across.at[j]));
      taps.weights.push_back(down.weight[i] * across.weight[j]);
    }
  }
}

std::vector<std::int32_t> bucketed_positions(std::int64_t side) {
  const std::vector<float> bounds = bucket_bounds(side);
  std::vector<std::int32_t> along;
  for (std::int64_t i = 0; i < side; ++i) {
    const float place = std::min(static_cast<float>(i) * (1.0f / static_cast<float>(side)),
                                 static_cast<float>(1.0 - 1e-6));
    along.push_back(
        static_cast<std::int32_t>(std::ranges::upper_bound(bounds, place) - bounds.begin()));
  }
  std::vector<std::int32_t> rows;
  for (const std::int32_t y : along) {
    for (const std::int32_t x : along) rows.push_back(y * static_cast<std::int32_t>(side) + x);
  }
  return rows;
}

std::vector<std::int32_t> nearest_positions(std::int64_t count, std::int64_t side) {
  const std::vector<float> bounds = bucket_bounds(side);
  std::vector<std::int32_t> along;
  for (std::int64_t i = 0; i < count; ++i) {
    const float place = static_cast<float>(i) / static_cast<float>(count);
    along.push_back(
        static_cast<std::int32_t>(std::ranges::upper_bound(bounds, place) - bounds.begin()));
  }
  return along;
}

}  // namespace saccade
