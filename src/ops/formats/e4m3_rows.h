// Rounding of rows of activations to float8_e4m3fn, where a checkpoint states that its weights are
// such numbers and its activations too (W8A8). This is the definition; devices round with loops of
// their own and must give the same bits, which their tests hold them to.
//
// A code is the nearest E4M3 to value / scale, ties to even, and stands for code * scale; what is
// beyond 448 becomes 448. The scale is the largest magnitude / 448 of the row, or of each group of
// inputs where weights have a scale a block; or the one that a checkpoint gives (input_scale). All
// quotients are rounded to f32. As in int8_rows.h, what has a largest magnitude under kInt8Least
// becomes zeros, and what has an infinity or a NaN gets zeros and a NaN for its scale, so that what
// is made of it is NaN too; so it does with a given scale, by which only rows of floats become
// numbers.
//
// compressed-tensors, transformers and vLLM divide by the scale as here. vLLM lets no token's scale
// be under 1 / (448 * 512); here there is no such floor: a row of small numbers keeps its digits.
// Scales of a whole tensor that are made while running, which fp8 checkpoints may ask for, are made
// by row instead: otherwise a row would depend on those beside it.
#pragma once

#include <cstdint>
#include <span>

namespace saccade {

inline constexpr float kMaxE4m3 = 448.0F;

// One row, or one group of it: codes.size() is row.size(). Returns the scale. `given`: the
// checkpoint's own scale, or 0.
float round_to_e4m3(std::span<const float> row, std::span<std::uint8_t> codes, float given = 0);

}  // namespace saccade
