// y += scale * x.
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename In, typename T, int N>
__global__ void __launch_bounds__(kRowBlock) add_kernel(AddKernelArgs args) {
  for (PackWalk walk(args.y.rows, args.y.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    float x[N];
    float y[N];
    load_from<N, In>(args.x, args.x.rows == 1 ? 0 : row, col, x);
    load_from<N, T>(args.y, row, col, y);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] += args.scale * x[i];
    store_to<N, T>(y, args.y, row, col);
  }
}

template <typename In, typename T, int N>
void launch(const AddKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((add_kernel<In, T, N>), pack_grid(args.y.rows, args.y.cols, N), dim3(kRowBlock), 0,
                 stream, args);
}

}  // namespace

void launch_add(const AddKernelArgs& args, cudaStream_t stream) {
  if (args.y.rows == 0 || args.y.cols == 0) return;
  const bool packs = aligned(args.x, kPack) && aligned(args.y, kPack);
  with_type(args.x.type, [&](auto in) {
    using In = decltype(in);
    if (args.y.type == DType::kBf16)
      packs ? launch<In, Bf16, kPack>(args, stream) : launch<In, Bf16, 1>(args, stream);
    else
      packs ? launch<In, float, kPack>(args, stream) : launch<In, float, 1>(args, stream);
  });
}

}  // namespace saccade::cuda
