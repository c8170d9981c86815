// Inside image/: the two passes of a resize, once in plain C++ and once per instruction set. All
// give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/resample_table.h"

namespace saccade {

constexpr int kTapGroup = 4;           // taps that packed weights hold together
constexpr std::size_t kRowSlack = 16;  // bytes past the last row that `horizontal` may read

struct ResizeKernels {
  // The table's weights as this instruction set likes them: made once, for either pass.
  std::vector<std::int32_t> (*pack)(const ResampleTable& table);

  // [rows, width, 3] to [rows, table.outputs(), 3].
  void (*horizontal)(const std::uint8_t* from, int width, int rows, const ResampleTable& table,
                     const std::vector<std::int32_t>& packed, std::uint8_t* to);

  // One output row of row_bytes; `from` is the first of its table.count[output] rows.
  void (*vertical)(const std::uint8_t* from, std::size_t row_bytes, const ResampleTable& table,
                   const std::vector<std::int32_t>& packed, int output, std::uint8_t* to);
};

// resize() on kernels of one's choice.
Pixels resize_with(const ResizeKernels& kernels, const Pixels& from, int width, int height,
                   ResampleFilter filter, const Cancelled& cancelled = {});

const ResizeKernels& portable_resize_kernels();
const ResizeKernels* avx2_resize_kernels();    // null where the CPU lacks it
const ResizeKernels* avx512_resize_kernels();  // with VNNI; null where the CPU lacks it

}  // namespace saccade
