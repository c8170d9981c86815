// What follows a library's product: bias, activation and residual in f32, rounded once.
#pragma once

#include "ops/cuda/kernels.h"

namespace saccade::cuda {

// y = activation(sums + bias) + residual
struct FinishProductKernelArgs {
  Rows sums;  // f32
  const float* bias = nullptr;
  Activation activation = Activation::kNone;
  Rows residual;  // of y's type, or absent; may be y
  Rows y;         // f32 or bf16
};
void launch_finish_product(const FinishProductKernelArgs& args, cudaStream_t stream);

}  // namespace saccade::cuda
