// Rows of the embedding table, by ids that the sampler may have written a moment ago, and rows of
// images in their places.
#include "ops/cuda/rows/grid.h"

namespace saccade::cuda {
namespace {

template <typename Table, typename T, int N>
__global__ void __launch_bounds__(kRowBlock) embed_kernel(EmbedKernelArgs args) {
  for (PackWalk walk(args.out.rows, args.out.cols, N); walk.more(); walk.next()) {
    const std::int64_t row = walk.row();
    const std::int64_t col = walk.col();
    float values[N];
    const std::int64_t image = args.image_rows != nullptr ? args.image_rows[row] : -1;
    if (image >= 0) {
      load_from<N, T>(args.images, image, col, values);
    } else {
      std::int64_t id = args.ids[row];
      if (id < 0) id = args.last_token[-1 - id];
      load_from<N, Table>(args.table, id, col, values);
#pragma unroll
      for (int i = 0; i < N; ++i) values[i] *= args.scale;
    }
    store_to<N, T>(values, args.out, row, col);
  }
}

template <typename Table, typename T, int N>
void launch(const EmbedKernelArgs& args, cudaStream_t stream) {
  SACCADE_LAUNCH((embed_kernel<Table, T, N>), pack_grid(args.out.rows, args.out.cols, N),
                 dim3(kRowBlock), 0, stream, args);
}

}  // namespace

void launch_embed(const EmbedKernelArgs& args, cudaStream_t stream) {
  if (args.out.rows == 0 || args.out.cols == 0) return;
  const bool packs =
      aligned(args.table, kPack) && aligned(args.images, kPack) && aligned(args.out, kPack);
  with_type(args.table.type, [&](auto table) {
    using Table = decltype(table);
    if (args.out.type == DType::kBf16)
      packs ? launch<Table, Bf16, kPack>(args, stream) : launch<Table, Bf16, 1>(args, stream);
    else
      packs ? launch<Table, float, kPack>(args, stream) : launch<Table, float, 1>(args, stream);
  });
}

}  // namespace saccade::cuda
