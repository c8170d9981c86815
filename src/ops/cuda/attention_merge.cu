// The results of a tile's splits, joined in their order: a warp a row, four columns a lane.
#include <type_traits>

#include "ops/cuda/attention_join.h"
#include "ops/cuda/attention_rows.h"

namespace saccade::cuda {
namespace {

constexpr int kWarps = 4;

template <int kWidth, bool kCoded>
__global__ void __launch_bounds__(kWarps * 32) attention_merge_kernel(AttentionKernelArgs args) {
  const AttentionMerge merge = args.splits.merges[blockIdx.x];
  if (merge.splits < 2) return;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto index = static_cast<int>(blockIdx.z * kWarps + threadIdx.x / 32);  // in the tile
  if (index >= kAttentionTileRows) return;
  const AttentionTile tile = args.tiles[blockIdx.x];
  const AttentionSequence sequence = args.sequences[tile.sequence];
  const std::int64_t kv_head = blockIdx.y;
  const std::int64_t group = args.heads / args.kv_heads;
  const RowPlace place = place_of(args, sequence, tile.first + index, group);
  if (!place.inside) return;
  const std::int64_t rows =
      smaller(std::int64_t{kAttentionTileRows}, sequence.row_count * group - tile.first);
  Bf16* const out = static_cast<Bf16*>(args.out.data) + place.row * args.out.stride +
                    (kv_head * group + place.member) * args.head_dim;
  for (int at = lane * 4; at < kWidth; at += 128) {
    RowState state;
    float sums[4] = {};
#pragma unroll 4
    for (std::int32_t split = 0; split < merge.splits; ++split) {
      const float* const partial =
          partial_row<kWidth>(args, merge.partial + split * rows + index, kv_head);
      float later[4];
      load(partial + at, later);
      const Join join(state, {partial[kWidth], partial[kWidth + 1]},
                      [](float x) { return exp2f(x); });
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = join.of(sums[i], later[i]);
      state = join.state();
    }
    const float scale = state.sum > 0 ? 1 / state.sum : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int col = kCoded ? code_column(at + i) : at + i;
      if (col < args.head_dim) narrow(sums[i] * scale, out[col]);
    }
  }
}

template <int kWidth>
void launch(const AttentionKernelArgs& args, cudaStream_t stream) {
  const auto with = [&](auto coded) {
    const std::int64_t row_blocks = (args.splits.merge_rows + kWarps - 1) / kWarps;
    SACCADE_LAUNCH((attention_merge_kernel<kWidth, decltype(coded)::value>),
                   dim3(static_cast<unsigned>(args.tile_count),
                        static_cast<unsigned>(args.kv_heads), static_cast<unsigned>(row_blocks)),
                   dim3(kWarps * 32), 0, stream, args);
  };
  if (args.pages.base != nullptr && args.pages.coded())
    with(std::true_type{});
  else
    with(std::false_type{});
}

}  // namespace

void launch_attention_merge(const AttentionKernelArgs& args, cudaStream_t stream) {
  switch (attention_width(args.head_dim)) {
    case 64:
      return launch<64>(args, stream);
    case 80:
      return launch<80>(args, stream);
    case 96:
      return launch<96>(args, stream);
    case 128:
      return launch<128>(args, stream);
    default:
      return launch<256>(args, stream);
  }
}

}  // namespace saccade::cuda
