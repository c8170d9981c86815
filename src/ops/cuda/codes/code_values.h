// What a code of a weight stands for, one at a time: for kernels that are not in a hurry.
#pragma once

#include "ops/cuda/codes/code_kernels.h"
#include "ops/cuda/codes/code_places.h"
#include "ops/cuda/kernel.h"

namespace saccade::cuda {

SACCADE_DEVICE float e4m3_value(unsigned code) {
  // The exponent's bias is 120 less than f32's: subnormals come out right too.
  return float_of((code & 0x80U) << 24 | (code & 0x7fU) << 20) * 0x1p120f;
}

// Without its scale: input `col` (in the order of the codes) of the output whose codes begin at
// `codes`. `zero` is that of its group.
SACCADE_DEVICE float code_value(CodeForm form, const std::byte* codes, std::int64_t col,
                                unsigned zero) {
  const auto in = static_cast<int>(col % kCodeChunk);
  const std::int64_t chunk = col / kCodeChunk;
  if (form == CodeForm::kBytes)
    return static_cast<float>(reinterpret_cast<const std::int8_t*>(codes)[col]);
  if (form == CodeForm::kE4m3Rows) return e4m3_value(static_cast<unsigned>(codes[col]));
  if (form == CodeForm::kE4m3)
    return e4m3_value(static_cast<unsigned>(codes[chunk * kE4m3ChunkBytes + e4m3_byte(in)]));
  const auto pair = static_cast<unsigned>(codes[chunk * kNibbleChunkBytes + nibble(in) / 2]);
  return static_cast<float>(static_cast<int>(pair >> nibble(in) % 2 * 4 & 15U) -
                            static_cast<int>(zero));
}

// With it, in f32. `weight` says what all weights of its kind are like.
SACCADE_DEVICE float coded_number(const CodedRows& weight, const std::byte* codes,
                                  const float* scales, const std::uint8_t* zeros, std::int64_t row,
                                  std::int64_t col) {
  const std::int64_t group = weight.form == CodeForm::kBytes ? 0 : col / (16 * weight.group_steps);
  const std::int64_t at =
      weight.form == CodeForm::kE4m3Rows ? weight.places.of(row, group) : group * weight.rows + row;
  const unsigned zero = weight.form == CodeForm::kNibbles ? zeros[at] : 0U;
  return code_value(weight.form, codes + row * weight.stride, col, zero) * scales[at];
}

}  // namespace saccade::cuda
