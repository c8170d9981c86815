// The weights of one pass of a resize: which source samples make each output sample.
#pragma once

#include <cstdint>
#include <vector>

#include "image/pixels.h"

namespace saccade {

constexpr int kWeightBits = 22;  // a weight of 1 is 1 << 22

struct ResampleTable {
  int taps = 0;                       // room per output sample in `weights`
  std::vector<int> first;             // per output sample: the first source sample
  std::vector<int> count;             // and how many; first + count <= source size
  std::vector<std::int32_t> weights;  // [outputs, taps], zero past `count`

  // The weight of one tap, zero past the room too.
  std::int32_t weight(int output, int tap) const {
    return tap < taps ? weights_of(output)[tap] : 0;
  }
  int outputs() const { return static_cast<int>(first.size()); }
  const std::int32_t* weights_of(int output) const {
    return weights.data() + static_cast<std::size_t>(output) * static_cast<std::size_t>(taps);
  }
};

// Of every filter but kNearest.
ResampleTable make_resample_table(int from_size, int to_size, ResampleFilter filter);

}  // namespace saccade
