// Inside image/: the two passes of a resize, once in plain C++ and once for AVX2. Both give the
// same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "image/resample_table.h"

namespace saccade {

struct ResizeKernels {
  // Every row of a [rows, width, 3] image to [rows, table.outputs(), 3].
  void (*horizontal)(const std::uint8_t* from, int width, int rows, const ResampleTable& table,
                     std::uint8_t* to);
  // A [height, row_bytes] image to [table.outputs(), row_bytes].
  void (*vertical)(const std::uint8_t* from, std::size_t row_bytes, const ResampleTable& table,
                   std::uint8_t* to);
};

const ResizeKernels& portable_resize_kernels();
const ResizeKernels* avx2_resize_kernels();  // null where the CPU lacks AVX2

}  // namespace saccade
