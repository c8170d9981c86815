// Weighted sums of a few rows: gathers, and bilinear resampling of feature grids.
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename In, typename T, int N>
__global__ void __launch_bounds__(kRowBlock) mix_rows_kernel(MixRowsKernelArgs args) {
  for (PackWalk walk(args.out.rows, args.out.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    float sums[N] = {};
    for (std::int64_t tap = row * args.taps; tap < (row + 1) * args.taps; ++tap) {
      const float weight = args.weights != nullptr ? args.weights[tap] : 1.0f;
      float values[N];
      load_from<N, In>(args.x, args.rows[tap], col, values);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += weight * values[i];
    }
    store_to<N, T>(sums, args.out, row, col);
  }
}

template <typename In, typename T, int N>
void launch(const MixRowsKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((mix_rows_kernel<In, T, N>), pack_grid(args.out.rows, args.out.cols, N),
                 dim3(kRowBlock), 0, stream, args);
}

}  // namespace

void launch_mix_rows(const MixRowsKernelArgs& args, cudaStream_t stream) {
  if (args.out.rows == 0 || args.out.cols == 0) return;
  const bool packs = aligned(args.x, kPack) && aligned(args.out, kPack);
  with_type(args.x.type, [&](auto in) {
    using In = decltype(in);
    if (args.out.type == DType::kBf16)
      packs ? launch<In, Bf16, kPack>(args, stream) : launch<In, Bf16, 1>(args, stream);
    else
      packs ? launch<In, float, kPack>(args, stream) : launch<In, float, 1>(args, stream);
  });
}

}  // namespace saccade::cuda
