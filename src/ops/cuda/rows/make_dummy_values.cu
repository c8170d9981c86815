// Weights that are made up: each element by itself, from its place in its tensor.
#include "ops/cuda/rows/grid.h"
#include "ops/cuda/rows/make_dummy_values.h"

namespace saccade::cuda {
namespace {

template <typename T, int N>
__global__ void __launch_bounds__(kRowBlock) make_dummy_values_kernel(MakeDummyValuesArgs args) {
  for (PackWalk walk(args.to.rows, args.padded, N); walk.more(); walk.next()) {
    const std::int64_t col = walk.col();
    const std::int64_t begin = args.first + walk.row() * args.row_step + col * args.col_step;
    float values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      Bf16 rounded;
      narrow(dummy_value(args.made, begin + i * args.col_step), rounded);
      values[i] = col + i < args.to.cols ? widen(rounded) : 0.0f;
    }
    store_to<N, T>(values, args.to, walk.row(), col);
  }
}

}  // namespace

void launch_make_dummy_values(const MakeDummyValuesArgs& args, cudaStream_t stream) {
  if (args.to.rows == 0 || args.padded == 0) return;
  Rows whole = args.to;
  whole.cols = args.padded;
  with_type(args.to.type, [&](auto type) {
    using T = decltype(type);
    if (aligned(whole, kPack))
      SACCADE_LAUNCH((make_dummy_values_kernel<T, kPack>), pack_grid(args.to.rows, args.padded, kPack),
                     dim3(kRowBlock), 0, stream, args);
    else
      SACCADE_LAUNCH((make_dummy_values_kernel<T, 1>), pack_grid(args.to.rows, args.padded, 1),
                     dim3(kRowBlock), 0, stream, args);
  });
}

}  // namespace saccade::cuda
