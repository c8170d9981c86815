// Pixels of 8 bits to rows of patches. A thread takes neighbours of a row, all of one square: where
// the first is costs divisions, the others a step each.
#include "ops/cuda/rows/grid.h"
#include "ops/cuda/layers/patch_kernels.h"

namespace saccade::cuda {
namespace {

constexpr int kSamples = 4;  // that go together: a square of an even side has whole ones

template <typename T, int N>
__global__ void __launch_bounds__(kRowBlock) cut_patches_kernel(CutPatchesKernelArgs args) {
  const auto side = static_cast<std::uint32_t>(args.side);
  const auto depth = static_cast<std::uint32_t>(args.depth);
  for (PackWalk walk(args.out.rows, args.out.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    const PatchPlace place = args.places[row];
    auto above = static_cast<std::uint32_t>(col);
    auto x = static_cast<std::int32_t>(above % side);
    above /= side;
    auto y = static_cast<std::int32_t>(above % side);
    above /= side;
    const auto channel = static_cast<std::int32_t>(above / depth);
    const std::int64_t frame = smaller(static_cast<std::int32_t>(above % depth), args.frames - 1);
    const std::uint8_t* const samples = args.pixels + frame * args.frame_bytes + channel;
    float values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const std::uint8_t sample =
          samples[(place.top + y) * args.line_bytes + std::int64_t{3} * (place.left + x)];
      values[i] = args.values[channel * 256 + sample];
      if (++x == args.side) {
        x = 0;
        ++y;
      }
    }
    store_to<N, T>(values, args.out, row, col);
  }
}

template <typename T, int N>
void launch(const CutPatchesKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((cut_patches_kernel<T, N>), pack_grid(args.out.rows, args.out.cols, N),
                 dim3(kRowBlock), 0, stream, args);
}

}  // namespace

void launch_cut_patches(const CutPatchesKernelArgs& args, cudaStream_t stream) {
  if (args.out.rows == 0 || args.out.cols == 0) return;
  const bool packs = args.side % 2 == 0 && aligned(args.out, kSamples);
  with_type(args.out.type, [&](auto type) {
    using T = decltype(type);
    packs ? launch<T, kSamples>(args, stream) : launch<T, 1>(args, stream);
  });
}

}  // namespace saccade::cuda
