// Kernels of products whose operands are both E4M3: rows of activations that are rounded for a
// checkpoint whose weights are such numbers too.
#pragma once

#include "ops/cuda/codes/code_kernels.h"

namespace saccade::cuda {

// Rows of activations as E4M3, with a scale each, or each of its groups.
struct E4m3Rows {
  std::byte* codes = nullptr;
  std::int64_t stride = 0;      // bytes, a multiple of 16; zero behind the last column
  float* scales = nullptr;      // of group g of row r: scales[g * group_step + r]
  std::int64_t group_step = 0;  // floats, the number of rows
};

// Rows of x become codes as e4m3_rows.h rounds them, to the bit.
struct RoundE4m3KernelArgs {
  Rows x;  // f32 or bf16
  E4m3Rows out;
  std::int64_t group = 0;  // columns: all, or a multiple of 32
  float given = 0;         // the scale of all rows; 0: each group has its own
};
void launch_round_e4m3(const RoundE4m3KernelArgs& args, cudaStream_t stream);

// The groups in which `weight` wants rows of x rounded.
constexpr std::int64_t group_of_inputs(const CodedRows& weight) {
  return weight.groups > 1 ? std::int64_t{16} * weight.group_steps : weight.cols;
}

// y = activation(sum + bias) + residual, where the sum is over groups, in their order, of the f32
// sum of a group's products times the scales of row and output.
struct GemmE4m3KernelArgs {
  E4m3Rows x;        // [x_rows]
  CodedRows weight;  // kE4m3Rows
  const float* bias = nullptr;
  Activation activation = Activation::kNone;
  Rows residual;  // may be y
  Rows y;         // [rows, out], f32 or bf16
};
void launch_gemm_e4m3(const GemmE4m3KernelArgs& args, cudaStream_t stream);
// args.weight says what all are like.
void launch_grouped_gemm_e4m3(const GemmE4m3KernelArgs& args, const GemmGroups& groups,
                              cudaStream_t stream);

}  // namespace saccade::cuda
