// Rows of a weight table that several vision towers have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint/weight_table.h"

namespace saccade {

// Learnt positions: [n, width] f32, for mix_rows.
struct PositionRows {
  Buffer storage;
  View view;
};

// `name` is the tensor's whole name.
void add_position_rows(WeightTable& table, PositionRows& into, const std::string& name,
                       std::int64_t n, std::int64_t width);

// NAME.weight of `shape` [out, ...] as [out, product of the rest], whose inputs are `count`
// patches' values of one channel, then those of the next, for rows that have one patch after the
// other.
void add_joining(WeightTable& table, Linear& into, const std::string& name,
                 std::vector<std::int64_t> shape, std::int64_t count);

}  // namespace saccade
