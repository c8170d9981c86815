// The numbers of a view, whatever its element type, as doubles: what the slow twins read and write.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace saccade::reference {

double get(View view, std::int64_t row, std::int64_t col);
// Rounded to f32, then to the view's type.
void set(View view, std::int64_t row, std::int64_t col, double value);

// Columns from `begin` on of a row, as many as are asked for.
void read(View view, std::int64_t row, std::int64_t begin, std::span<double> to);
std::vector<double> part_of(View view, std::int64_t row, std::int64_t begin, std::int64_t count);
std::vector<double> row_of(View view, std::int64_t row);
void write(View view, std::int64_t row, std::int64_t begin, std::span<const double> values);

}  // namespace saccade::reference
