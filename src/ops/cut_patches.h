// Pixels of 8 bits to the rows that a vision tower multiplies.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ops/patch_place.h"
#include "tensor/tensor.h"

namespace saccade {

// out row r is the patch at places[r], as [channel, frame, y, x]: each sample becomes what `values`
// has for it, rounded to out's type and by nothing else, so that all devices have the same bits.
// Where there are fewer frames than `depth` the last stands for the rest. All but out is the
// host's.
struct CutPatchesArgs {
  std::span<const std::span<const std::uint8_t>> frames;  // each [height, width, 3]
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::span<const PatchPlace> places;                 // [rows]
  std::int64_t side = 0;                              // pixels
  std::int64_t depth = 1;                             // frames of a row
  std::span<const std::array<float, 256>, 3> values;  // of each channel
  View out;                                           // [rows, 3 * depth * side * side]
};

}  // namespace saccade
