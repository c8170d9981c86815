// Rounding of rows of floats to eight bits, symmetric about zero: what a row of activations and a
// row of weights become where both are multiplied as bytes. This is the definition; devices round
// with loops of their own and must give the same bits, which their tests hold them to.
//
// A code is the nearest integer to value * (127 / clip), ties to even, from -127 to 127; it stands
// for code * (clip / 127). Both quotients are rounded to f32, and so is the product. A row whose
// largest magnitude is under kInt8Least becomes zeros; one with an infinity or a NaN gets a NaN for
// its scale, so that what is made of it is NaN too. Weights that are stored as bytes
// (StoredMatrix's kInt8) are not rounded: any code from -128 on and any scale are taken as they
// are.
#pragma once

#include <cstdint>
#include <span>

#include "ops/formats/int8_limits.h"

namespace saccade {

// NaN of a row with an infinity or a NaN.
float largest_magnitude(std::span<const float> row);

// A row of activations: the clip is the largest magnitude. Returns the scale; codes.size() is
// row.size().
float round_activations(std::span<const float> row, std::span<std::int8_t> codes);

// A row of weights: clips of 1, 0.98, 0.96 ... times the largest magnitude are tried as long as
// the sum of squared errors falls (kInt8Clips at most, and kInt8ClipPatience worse ones end it).
// That sum runs in sixteen parts, element i in part i % 16, added up by halves; in f32, no product
// fused with a sum.
float round_weights(std::span<const float> row, std::span<std::int8_t> codes);

}  // namespace saccade
