// The end of gemm() where a library has summed: as gemm.cu's own end, element by element.
#include "ops/cuda/rows/activate.h"
#include "ops/cuda/products/finish_product.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename T, int N>
__global__ void __launch_bounds__(kRowBlock) finish_product_kernel(FinishProductKernelArgs args) {
  for (PackWalk walk(args.y.rows, args.y.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    float sums[N];
    load_from<N, float>(args.sums, row, col, sums);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (args.bias != nullptr) sums[i] += args.bias[col + i];
      if (args.activation != Activation::kNone) sums[i] = activate(args.activation, sums[i]);
    }
    if (args.residual.data != nullptr) {
      float other[N];
      load_from<N, T>(args.residual, row, col, other);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += other[i];
    }
    store_to<N, T>(sums, args.y, row, col);
  }
}

template <typename T>
void launch_as(const FinishProductKernelArgs& args, cudaStream_t stream) {
  if (aligned(args.sums, kPack) && aligned(args.residual, kPack) && aligned(args.y, kPack))
    SACCADE_LAUNCH((finish_product_kernel<T, kPack>), pack_grid(args.y.rows, args.y.cols, kPack),
                   dim3(kRowBlock), 0, stream, args);
  else
    SACCADE_LAUNCH((finish_product_kernel<T, 1>), pack_grid(args.y.rows, args.y.cols, 1),
                   dim3(kRowBlock), 0, stream, args);
}

}  // namespace

void launch_finish_product(const FinishProductKernelArgs& args, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  if (args.y.type == DType::kBf16)
    launch_as<Bf16>(args, stream);
  else
    launch_as<float>(args, stream);
}

}  // namespace saccade::cuda
