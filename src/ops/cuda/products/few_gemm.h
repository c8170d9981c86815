// Products of few rows with what stands around them, in one launch.
#pragma once

#include "ops/cuda/kernels.h"

namespace saccade::cuda {

// y = activation(x w^T + bias) + residual, or with `gated` activation(gate) * up, where the weight
// stacks the outputs of gate and up; of x, or of its RMS norm. In bf16, to the bits of the launches
// that it stands for: launch_norm, launch_gemm and launch_gated, whose results are rounded.
//
// Every block has all of x in shared memory, and normalises it there by itself while its first
// pieces of the weight are on their way.
struct FewGemmKernelArgs {
  GemmKernelArgs gemm;          // gated: no residual, the activation is the gate's
  const float* norm = nullptr;  // its weight, or null: x as it is
  float epsilon = 1e-6f;        // as in NormKernelArgs
  float offset = 0;
  bool gated = false;
};
// Whether launch_few_gemm() takes it: up to 16 rows of bf16 that can be taken 16 bytes at a time
// and, beside pieces of the weight, fit the shared memory of every GPU. A norm is of so few that it
// takes no longer than its launch would: a guess that no GPU has measured.
bool takes_few_gemm(const FewGemmKernelArgs& args);
void launch_few_gemm(const FewGemmKernelArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
