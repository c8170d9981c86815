// Joins the results of tiles' splits, where no block of theirs does.
#include <type_traits>

#include "ops/cuda/attention/attention_merge.h"

namespace saccade::cuda {
namespace {

template <int kWidth, bool kCoded>
__global__ void __launch_bounds__(32) attention_merge_kernel(AttentionKernelArgs args) {
  const auto tile = static_cast<std::int32_t>(blockIdx.x);
  const AttentionMerge merge = args.splits.merges[tile];
  const auto row = static_cast<std::int32_t>(blockIdx.z);
  if (merge.splits < 2 || row >= merge.rows) return;
  if (tile < args.few_tiles && joined_by_last(merge)) return;
  join_row<kWidth, kCoded, (kWidth > 128 ? 8 : 16)>(args, tile, blockIdx.y, row,
                                                    static_cast<int>(threadIdx.x));
}

template <int kWidth>
void launch(const AttentionKernelArgs& args, cudaStream_t stream) {
  if (args.splits.merge_rows == 0) return;
  const auto with = [&](auto coded) {
    SACCADE_LAUNCH(
        (attention_merge_kernel<kWidth, decltype(coded)::value>),
        dim3(static_cast<unsigned>(args.tile_count), static_cast<unsigned>(args.kv_heads),
             static_cast<unsigned>(args.splits.merge_rows)),
        dim3(32), 0, stream, args);
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
