// Made-up numbers in a row, many at a time: made_number() of each, rounded to bf16.
#pragma once

#include <cstdint>
#include <span>

#include "ops/formats/made_numbers.h"

namespace saccade {

// Elements from `first` on, as floats that are numbers of bf16.
void make_numbers(const MadeNumbers& made, std::int64_t first, std::span<float> into);

}  // namespace saccade
