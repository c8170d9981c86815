// Products of bytes on tensor cores: exact sums, then the scales of the row and of the output, each
// product and sum rounded by itself (no fused multiply-add in this file) as on the CPU.
#include "ops/cuda/codes/code_kernels.h"
#include "ops/cuda/products/gemm_tiles.h"

namespace saccade::cuda {
namespace {

struct ByteMath {
  using Sum = std::int32_t;
  struct Scales {
    const float* x = nullptr;
    const float* weight = nullptr;
    SACCADE_DEVICE void take(const GroupWeight& group) { weight = group.scales; }
    SACCADE_DEVICE float of(std::int32_t sum, std::int64_t x_row, std::int64_t col) const {
      return static_cast<float>(sum) * weight[col] * x[x_row];
    }
  };
};

// Two bytes a word.
GemmKernelArgs words_of(const GemmBytesKernelArgs& args) {
  const std::int64_t words = (args.weight.cols + 1) / 2;
  GemmKernelArgs words_args;
  words_args.x = {const_cast<std::int8_t*>(args.x), DType::kBf16, args.y.rows, words,
                  args.x_stride / 2};
  words_args.weight = {const_cast<std::byte*>(args.weight.codes), DType::kBf16, args.weight.rows,
                       words, args.weight.stride / 2};
  words_args.bias = args.bias;
  words_args.activation = args.activation;
  words_args.residual = args.residual;
  words_args.y = args.y;
  return words_args;
}

}  // namespace

void launch_gemm_bytes(const GemmBytesKernelArgs& args, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  const ByteMath::Scales scales{args.x_scales, args.weight.scales};
  if (args.y.type == DType::kBf16)
    launch_rows<ByteMath, Bf16, true>(words_of(args), scales, stream);
  else
    launch_rows<ByteMath, float, true>(words_of(args), scales, stream);
}

void launch_grouped_gemm_bytes(const GemmBytesKernelArgs& args, const GemmGroups& groups,
                               cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  const ByteMath::Scales scales{args.x_scales, nullptr};
  if (args.y.type == DType::kBf16)
    launch_groups<ByteMath, Bf16, true>(words_of(args), groups, scales, stream);
  else
    launch_groups<ByteMath, float, true>(words_of(args), groups, scales, stream);
}

}  // namespace saccade::cuda
