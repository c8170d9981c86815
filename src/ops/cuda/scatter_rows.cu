// Rows to their places, converted between the float types; a copy when every place is its own.
#include "ops/cuda/grid.h"

namespace saccade::cuda {
namespace {

template <typename In, typename T, int N>
__global__ void __launch_bounds__(kRowBlock) scatter_rows_kernel(ScatterRowsKernelArgs args) {
  for (PackWalk walk(args.x.rows, args.x.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    const std::int64_t to = args.rows != nullptr ? args.rows[row] : row;
    float values[N];
    load_from<N, In>(args.x, row, col, values);
    store_to<N, T>(values, args.out, to, col);
  }
}

template <typename In, typename T, int N>
void launch(const ScatterRowsKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((scatter_rows_kernel<In, T, N>), pack_grid(args.x.rows, args.x.cols, N),
                 dim3(kRowBlock), 0, stream, args);
}

}  // namespace

void launch_scatter_rows(const ScatterRowsKernelArgs& args, cudaStream_t stream) {
  if (args.x.rows == 0 || args.x.cols == 0) return;
  const bool packs = aligned(args.x, kPack) && aligned(args.out, kPack);
  with_type(args.x.type, [&](auto in) {
    with_type(args.out.type, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      packs ? launch<In, Out, kPack>(args, stream) : launch<In, Out, 1>(args, stream);
    });
  });
}

}  // namespace saccade::cuda
