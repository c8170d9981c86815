// The resize passes in plain C++: what they mean, and the oracle of the fast ones.
#include <algorithm>

#include "image/resize_kernels.h"

namespace saccade {
namespace {

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::vector<std::int32_t> pack(const ResampleTable& /*table*/) { return {}; }

void horizontal(const std::uint8_t* from, int width, int rows, const ResampleTable& table,
                const std::vector<std::int32_t>& /*packed*/, std::uint8_t* to) {
  for (int y = 0; y < rows; ++y) {
    const std::uint8_t* row = from + static_cast<std::size_t>(y) * width * 3;
    for (int i = 0; i < table.outputs(); ++i, to += 3) {
      const std::uint8_t* pixel = row + table.first[static_cast<std::size_t>(i)] * 3;
      const std::int32_t* weights = table.weights_of(i);
      std::int32_t r = kHalf, g = kHalf, b = kHalf;
      for (int k = 0; k < table.count[static_cast<std::size_t>(i)]; ++k, pixel += 3) {
        r += pixel[0] * weights[k];
        g += pixel[1] * weights[k];
        b += pixel[2] * weights[k];
      }
      to[0] = to_byte(r);
      to[1] = to_byte(g);
      to[2] = to_byte(b);
    }
  }
}

void vertical(const std::uint8_t* from, std::size_t row_bytes, const ResampleTable& table,
              const std::vector<std::int32_t>& /*packed*/, int output, std::uint8_t* to) {
  const std::int32_t* weights = table.weights_of(output);
  const int count = table.count[static_cast<std::size_t>(output)];
  for (std::size_t x = 0; x < row_bytes; ++x) {
    std::int32_t sum = kHalf;
    for (int k = 0; k < count; ++k)
      sum += from[static_cast<std::size_t>(k) * row_bytes + x] * weights[k];
    to[x] = to_byte(sum);
  }
}

}  // namespace

const ResizeKernels& portable_resize_kernels() {
  static constexpr ResizeKernels kKernels{pack, horizontal, vertical};
  return kKernels;
}

}  // namespace saccade
