// The normal numbers that torch.randn draws on a CPU from a seed: what the weights of the tiny
// checkpoints were made of (tools/goldens). Equal to torch's up to a rounding of float32, and to
// the bit on every machine: nothing but sums, products, quotients and square roots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace saccade::test {

// Numbers come in blocks of 16: from draws d .. d + 15, eight cosines, then eight sines, of draws d
// + i and d + 8 + i.
class NormalStream {
 public:
  NormalStream(uint32_t seed, size_t draws);

  size_t draws() const { return cosines_.size(); }
  // Number `index` of a tensor of `count` (>= 16) whose first block is of draw `first`, less
  // `phase` numbers of that block. With `tail`, the last 16 are of draws of their own, as torch
  // does when a tensor does not end with a block.
  float at(size_t first, unsigned phase, bool tail, size_t index, size_t count) const {
    if (tail && index + 16 >= count) return block(first + count, index + 16 - count);
    const size_t place = index + phase;
    return block(first + place / 16 * 16, place % 16);
  }
  // One more than the last draw that these need.
  static size_t reach(size_t first, unsigned phase, bool tail, size_t count) {
    return first + (tail ? count + 16 : (count + phase + 15) / 16 * 16);
  }

 private:
  float block(size_t draw, size_t index) const {
    return index < 8 ? cosines_[draw + index] : sines_[draw + index - 8];
  }
  std::vector<float> cosines_, sines_;  // radius(draw i) times those of angle(draw i + 8)
};

}  // namespace saccade::test
