// Products on tensor cores: bf16 operands, f32 sums, 16 products of an output at a time along `in`.
#include "ops/cuda/products/gemm_tiles.h"

namespace saccade::cuda {
namespace {

struct NumberMath {
  using Sum = float;
  struct Scales {
    SACCADE_DEVICE void take(const GroupWeight&) {}
    SACCADE_DEVICE float of(float sum, std::int64_t, std::int64_t) const { return sum; }
  };
};

bool aligned_rows(const Rows& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 8 == 0;
}

bool bf16_operands(const GemmKernelArgs& args) {
  return args.x.type == DType::kBf16 && args.weight.type == DType::kBf16;
}

template <typename Out>
void launch_as(const GemmKernelArgs& args, cudaStream_t stream) {
  aligned_rows(args.x) ? launch_rows<NumberMath, Out, true>(args, {}, stream)
                       : launch_rows<NumberMath, Out, false>(args, {}, stream);
}

template <typename Out>
void launch_groups_as(const GemmKernelArgs& args, const GemmGroups& groups, cudaStream_t stream) {
  aligned_rows(args.x) ? launch_groups<NumberMath, Out, true>(args, groups, {}, stream)
                       : launch_groups<NumberMath, Out, false>(args, groups, {}, stream);
}

}  // namespace

void launch_gemm(const GemmKernelArgs& args, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  if (!bf16_operands(args))
    launch_gemm_f32(args, stream);
  else if (args.y.type == DType::kBf16)
    launch_as<Bf16>(args, stream);
  else
    launch_as<float>(args, stream);
}

void launch_grouped_gemm(const GemmKernelArgs& args, const GemmGroups& groups,
                         cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  if (!bf16_operands(args))
    launch_grouped_gemm_f32(args, groups, stream);
  else if (args.y.type == DType::kBf16)
    launch_groups_as<Bf16>(args, groups, stream);
  else
    launch_groups_as<float>(args, groups, stream);
}

}  // namespace saccade::cuda
