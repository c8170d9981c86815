// Made-up weights (ops/formats/dummy_values.h), made where they stay: no host copy, and the host's
// bits.
#pragma once

#include "ops/cuda/kernels.h"
#include "ops/formats/dummy_values.h"

namespace saccade::cuda {

// Column c of row r becomes element first + r * row_step + c * col_step of `made`, rounded to bf16;
// columns from to.cols up to `padded` become zero.
struct MakeDummyValuesArgs {
  DummyValues made;
  std::int64_t first = 0;
  std::int64_t row_step = 0;
  std::int64_t col_step = 1;
  Rows to;  // f32, bf16 or f16
  std::int64_t padded = 0;
};
void launch_make_dummy_values(const MakeDummyValuesArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
