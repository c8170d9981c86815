// Dummy weights in a row, many at a time: dummy_value() of each, rounded to bf16.
#pragma once

#include <cstdint>
#include <span>

#include "ops/formats/dummy_values.h"

namespace saccade {

// Elements from `first` on, as floats that are bf16 values.
void make_dummy_values(const DummyValues& made, std::int64_t first, std::span<float> into);

}  // namespace saccade
