// x = cap * tanh(x / cap), in place.
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename T, int N>
__global__ void __launch_bounds__(kRowBlock) softcap_kernel(SoftcapKernelArgs args) {
  for (PackWalk walk(args.x.rows, args.x.cols, N); walk.more(); walk.next()) {
    float x[N];
    load_from<N, T>(args.x, walk.row(), walk.col(), x);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = args.cap * tanhf(x[i] / args.cap);
    store_to<N, T>(x, args.x, walk.row(), walk.col());
  }
}

template <typename T, int N>
void launch(const SoftcapKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((softcap_kernel<T, N>), pack_grid(args.x.rows, args.x.cols, N), dim3(kRowBlock), 0,
                 stream, args);
}

}  // namespace

void launch_softcap(const SoftcapKernelArgs& args, cudaStream_t stream) {
  if (args.x.rows == 0 || args.x.cols == 0) return;
  const bool packs = aligned(args.x, kPack);
  if (args.x.type == DType::kBf16)
    packs ? launch<Bf16, kPack>(args, stream) : launch<Bf16, 1>(args, stream);
  else
    packs ? launch<float, kPack>(args, stream) : launch<float, 1>(args, stream);
}

}  // namespace saccade::cuda
