// Gated activations, and activations alone with what stands around them in an MLP.
#include "ops/cuda/rows/activate.h"
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename T, int N>
__global__ void __launch_bounds__(kRowBlock) gated_kernel(GatedKernelArgs args) {
  for (PackWalk walk(args.out.rows, args.out.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    float gate[N];
    load_from<N, T>(args.gate, row, col, gate);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (args.bias != nullptr) gate[i] += args.bias[col + i];
      gate[i] = activate(args.activation, gate[i]);
    }
    float other[N];
    if (args.up.data != nullptr) {
      load_from<N, T>(args.up, row, col, other);
#pragma unroll
      for (int i = 0; i < N; ++i) gate[i] *= other[i];
    }
    if (args.residual.data != nullptr) {
      load_from<N, T>(args.residual, row, col, other);
#pragma unroll
      for (int i = 0; i < N; ++i) gate[i] += other[i];
    }
    store_to<N, T>(gate, args.out, row, col);
  }
}

template <typename T, int N>
void launch(const GatedKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((gated_kernel<T, N>), pack_grid(args.out.rows, args.out.cols, N), dim3(kRowBlock),
                 0, stream, args);
}

template <typename T>
void launch_as(const GatedKernelArgs& args, cudaStream_t stream) {
  if (aligned(args.gate, kPack) && aligned(args.up, kPack) && aligned(args.residual, kPack) &&
      aligned(args.out, kPack))
    launch<T, kPack>(args, stream);
  else
    launch<T, 1>(args, stream);
}

}  // namespace

void launch_gated(const GatedKernelArgs& args, cudaStream_t stream) {
  if (args.out.rows == 0 || args.out.cols == 0) return;
  if (args.out.type == DType::kBf16)
    launch_as<Bf16>(args, stream);
  else
    launch_as<float>(args, stream);
}

}  // namespace saccade::cuda
