// Weights that are kept as codes, dequantised: rows of bf16, as a library multiplies them.
#pragma once

#include "ops/cuda/codes/code_kernels.h"

namespace saccade::cuda {

// Inputs that a weight with an order may have: an output of it lies in shared memory at once.
inline constexpr std::int64_t kMaxOrderedInputs = 49152;

// Outputs [first, first + to.rows) of a weight become rows of its numbers, code * scale in f32,
// rounded to bf16 once. Columns are those of x: an order of the weight's is undone. Zero from the
// last input up to a multiple of 8.
struct DequantizeCodesArgs {
  CodedRows weight;  // kE4m3 or kNibbles
  std::int64_t first = 0;
  Rows to;  // bf16, cols: the weight's; begins 16-byte aligned, as do its rows
};
void launch_dequantize_codes(const DequantizeCodesArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
