// Rows from anywhere to anywhere, converted between the float types, stored or added.
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename In, typename T, int N>
__global__ void __launch_bounds__(kRowBlock) copy_rows_kernel(CopyRowsKernelArgs args) {
  for (PackWalk walk(args.count, args.from.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    const std::int64_t from = args.from_rows != nullptr ? args.from_rows[row] : row;
    const std::int64_t to = args.to_rows != nullptr ? args.to_rows[row] : row;
    if (to < 0) continue;
    float values[N];
    load_from<N, In>(args.from, from, col, values);
    if (args.add) {
      float before[N];
      load_from<N, T>(args.to, to, col, before);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] += before[i];
    }
    store_to<N, T>(values, args.to, to, col);
  }
}

template <typename In, typename T, int N>
void launch(const CopyRowsKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((copy_rows_kernel<In, T, N>), pack_grid(args.count, args.from.cols, N),
                 dim3(kRowBlock), 0, stream, args);
}

}  // namespace

void launch_copy_rows(const CopyRowsKernelArgs& args, cudaStream_t stream) {
  if (args.count == 0 || args.from.cols == 0) return;
  const bool packs = aligned(args.from, kPack) && aligned(args.to, kPack);
  with_type(args.from.type, [&](auto in) {
    with_type(args.to.type, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      packs ? launch<In, Out, kPack>(args, stream) : launch<In, Out, 1>(args, stream);
    });
  });
}

}  // namespace saccade::cuda
