// The results of a tile's splits, joined in their order: a block a row, a column a thread. What the
// splits' sums are multiplied by follows from their largest scores, and is worked out side by side;
// it is what Join makes of one split after the other.
#include <type_traits>

#include "ops/cuda/attention_rows.h"
#include "ops/cuda/attention_softmax.h"

namespace saccade::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kAhead = 16;  // splits whose sums are on their way at once
// In the place of a factor: the row sees nothing of this split; nothing of those before it.
constexpr float kNothing = -1;
constexpr float kNothingBefore = -2;

struct MergeFactors {
  float earlier;
  float later;
  float sum;  // of the split's weights
};

SACCADE_DEVICE float joined(const MergeFactors& factors, float before, float later) {
  if (factors.earlier == kNothing) return before;
  if (factors.earlier == kNothingBefore) return later;
  return joined_sum(before, factors.earlier, later, factors.later);
}

template <int kWidth, bool kCoded>
__global__ void __launch_bounds__(kThreads) attention_merge_kernel(AttentionKernelArgs args) {
  constexpr int kCols = (kWidth + kThreads - 1) / kThreads;  // of a thread
  SACCADE_SHARED(MergeFactors, factors, kThreads);
  SACCADE_SHARED(float, tops, kWarps);
  const AttentionMerge merge = args.splits.merges[blockIdx.x];
  const auto index = static_cast<std::int32_t>(blockIdx.z);  // of the row, in the tile
  if (merge.splits < 2 || index >= merge.rows) return;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const std::int64_t kv_head = blockIdx.y;
  const float* const first =
      partial_row<kWidth>(args, std::int64_t{merge.partial} + index, kv_head);
  const std::int64_t step = merge.rows * args.kv_heads * (kWidth + kPartialStateFloats);

  float coming[kCols][kAhead];
  const auto ask = [&](std::int32_t split) {
#pragma unroll
    for (int c = 0; c < kCols; ++c)
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int col = thread + c * kThreads;
        const bool there = split + i < merge.splits && col < kWidth;
        coming[c][i] = there ? first[(split + i) * step + col] : 0.0f;
      }
  };
  ask(0);
  float top = kUnseen;  // of the splits so far
  float sums[kCols] = {};
  float total = 0;
  for (std::int32_t begin = 0; begin < merge.splits; begin += kThreads) {
    // A thread a split: the largest score up to it, and before it.
    RowState mine;
    if (begin + thread < merge.splits) {
      const float* const state = first + (begin + thread) * step + kWidth;
      mine = {state[0], state[1]};
    }
    const bool sees = mine.sum != 0;
    float upto = sees ? mine.max : kUnseen;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) upto = fmaxf(upto, __shfl_up_sync(kFullWarp, upto, by));
    float before = __shfl_up_sync(kFullWarp, upto, 1);
    if (lane == 0) before = kUnseen;
    __syncthreads();  // nobody reads those of the last round any more
    if (lane == 31) tops[thread / 32] = upto;
    __syncthreads();
    before = fmaxf(before, top);
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      if (warp < thread / 32) before = fmaxf(before, tops[warp]);
      top = fmaxf(top, tops[warp]);
    }
    const Join join({before, before == kUnseen ? 0.0f : 1.0f}, mine, Exp2());
    factors[thread] = {!sees               ? kNothing
                       : before == kUnseen ? kNothingBefore
                                           : join.earlier(),
                       join.later(), mine.sum};
    __syncthreads();

    const std::int32_t count = smaller(std::int32_t{kThreads}, merge.splits - begin);
    for (std::int32_t at = 0; at < count; at += kAhead) {
      float now[kCols][kAhead];
#pragma unroll
      for (int c = 0; c < kCols; ++c)
#pragma unroll
        for (int i = 0; i < kAhead; ++i) now[c][i] = coming[c][i];
      ask(begin + at + kAhead);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (at + i >= count) break;
        const MergeFactors of = factors[at + i];
#pragma unroll
        for (int c = 0; c < kCols; ++c) sums[c] = joined(of, sums[c], now[c][i]);
        total = joined(of, total, of.sum);
      }
    }
  }

  const AttentionTile tile = args.tiles[blockIdx.x];
  const std::int64_t group = args.heads / args.kv_heads;
  const RowPlace place = place_of(args, args.sequences[tile.sequence], tile.first + index, group);
  Bf16* const out = static_cast<Bf16*>(args.out.data) + place.row * args.out.stride +
                    (kv_head * group + place.member) * args.head_dim;
  const float scale = inverse_sum(total);
#pragma unroll
  for (int c = 0; c < kCols; ++c) {
    const int at = thread + c * kThreads;
    const int col = kCoded ? code_column(at) : at;
    if (at < kWidth && col < args.head_dim) narrow(sums[c] * scale, out[col]);
  }
}

template <int kWidth>
void launch(const AttentionKernelArgs& args, cudaStream_t stream) {
  if (args.splits.merge_rows == 0) return;
  const auto with = [&](auto coded) {
    SACCADE_LAUNCH(
        (attention_merge_kernel<kWidth, decltype(coded)::value>),
        dim3(static_cast<unsigned>(args.tile_count), static_cast<unsigned>(args.kv_heads),
             static_cast<unsigned>(args.splits.merge_rows)),
        dim3(kThreads), 0, stream, args);
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
