// Learnt positions of a square of patches, for a square of another size.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace saccade {

// One output of torch's bicubic interpolation (a = -0.75, corners not aligned) along one axis: four
// neighbours, borders repeated, and their weights.
struct CubicTaps {
  std::array<std::int64_t, 4> at{};
  std::array<float, 4> weight{};
};
CubicTaps cubic_taps(std::int64_t index, std::int64_t from, std::int64_t to);

// [from^2, width] to [to^2, width], bicubic (a = -0.75), corners not aligned, borders repeated: as
// torch's interpolate. The same size is the same numbers.
std::vector<float> resample_positions(const std::vector<float>& rows, std::int64_t from,
                                      std::int64_t to, std::int64_t width);

// A patch's place between some of a square's: which rows of [side^2, width], and how much of each.
struct PositionTaps {
  std::vector<std::int32_t> rows;
  std::vector<float> weights;
};

// Adds the four taps of the patch at (row, column) of height x width: bilinear, corners aligned, as
// transformers' get_vision_interpolation_indices_and_weights.
void add_bilinear_taps(std::int64_t row, std::int64_t height, std::int64_t column,
                       std::int64_t width, std::int64_t side, PositionTaps& taps);

// The same bicubic (a = -0.75), corners not aligned, borders repeated, as torch's grid_sample:
// sixteen rows a patch.
void add_bicubic_taps(std::int64_t row, std::int64_t height, std::int64_t column,
                      std::int64_t width, std::int64_t side, PositionTaps& taps);

// Which of side^2 positions the patches of a whole tile take, row by row, where a patch's place
// i / side is sorted into buckets of float32 bounds (SmolVLM, arXiv:2307.06304): their order, but
// for sides where rounding puts two neighbours into one. Bounds as torch makes them on x86.
std::vector<std::int32_t> bucketed_positions(std::int64_t side);

// Which of `side` positions each of `count` patches along one axis takes, i / count sorted into the
// same buckets: as transformers' get_vision_nearest_position_ids.
std::vector<std::int32_t> nearest_positions(std::int64_t count, std::int64_t side);

}  // namespace saccade
