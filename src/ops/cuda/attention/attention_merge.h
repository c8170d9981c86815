// The results of a tile's splits, joined in their order: a warp a row. What the splits' sums are
// multiplied by follows from their largest scores, and is worked out side by side, a lane a split;
// it is what Join makes of one split after the other.
#pragma once

#include "ops/cuda/attention/attention_rows.h"
#include "ops/cuda/attention/attention_softmax.h"

namespace saccade::cuda {

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

// Of row `index` of a tile. kAhead: splits whose sums are on their way at once.
template <int kWidth, bool kCoded, int kAhead>
SACCADE_DEVICE void join_row(const AttentionKernelArgs& args, std::int32_t tile_index,
                             std::int64_t kv_head, std::int32_t index, int lane) {
  constexpr int kCols = (kWidth + 31) / 32;  // of a lane
  static_assert(32 % kAhead == 0);
  const AttentionMerge merge = args.splits.merges[tile_index];
  const float* const first =
      partial_row<kWidth>(args, std::int64_t{merge.partial} + index, kv_head);
  const std::int64_t step = merge.rows * args.kv_heads * (kWidth + kPartialStateFloats);

  float coming[kCols][kAhead];
  const auto ask = [&](std::int32_t split) {
#pragma unroll
    for (int c = 0; c < kCols; ++c)
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int col = lane + c * 32;
        const bool there = split + i < merge.splits && col < kWidth;
        coming[c][i] = there ? first[(split + i) * step + col] : 0.0f;
      }
  };
  ask(0);
  float top = kUnseen;  // of the splits so far
  float sums[kCols] = {};
  float total = 0;
  for (std::int32_t begin = 0; begin < merge.splits; begin += 32) {
    // A lane a split: the largest score up to it, and before it.
    RowState mine;
    if (begin + lane < merge.splits) {
      const float* const state = first + (begin + lane) * step + kWidth;
      mine = {state[0], state[1]};
    }
    const bool sees = mine.sum != 0;
    float upto = sees ? mine.max : kUnseen;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) upto = fmaxf(upto, __shfl_up_sync(kFullWarp, upto, by));
    float before = __shfl_up_sync(kFullWarp, upto, 1);
    if (lane == 0) before = kUnseen;
    before = fmaxf(before, top);
    top = fmaxf(top, __shfl_sync(kFullWarp, upto, 31));
    const Join join({before, before == kUnseen ? 0.0f : 1.0f}, mine, Exp2());
    const float earlier = !sees ? kNothing : before == kUnseen ? kNothingBefore : join.earlier();
    const float later = join.later();

    const std::int32_t count = smaller(std::int32_t{32}, merge.splits - begin);
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
        const auto split = static_cast<unsigned>(at + i);
        const MergeFactors of = {__shfl_sync(kFullWarp, earlier, split),
                                 __shfl_sync(kFullWarp, later, split),
                                 __shfl_sync(kFullWarp, mine.sum, split)};
#pragma unroll
        for (int c = 0; c < kCols; ++c) sums[c] = joined(of, sums[c], now[c][i]);
        total = joined(of, total, of.sum);
      }
    }
  }

  const AttentionTile tile = args.tiles[tile_index];
  const std::int64_t group = args.heads / args.kv_heads;
  const RowPlace place = place_of(args, args.sequences[tile.sequence], tile.first + index, group);
  Bf16* const out = static_cast<Bf16*>(args.out.data) + place.row * args.out.stride +
                    (kv_head * group + place.member) * args.head_dim;
  const float scale = inverse_sum(total);
#pragma unroll
  for (int c = 0; c < kCols; ++c) {
    const int at = lane + c * 32;
    const int col = kCoded ? code_column(at) : at;
    if (at < kWidth && col < args.head_dim) narrow(sums[c] * scale, out[col]);
  }
}

// By the last block of a tile of few rows that has left its split's result, where that is who joins
// them (joined_by_last()). Blocks may end in any order: results are joined in the splits'.
template <int kWidth, bool kCoded>
SACCADE_DEVICE void join_if_last(const AttentionKernelArgs& args, std::int32_t tile,
                                 std::int32_t kv_head) {
  SACCADE_SHARED(std::uint32_t, ended_before, 1);
  const AttentionMerge merge = args.splits.merges[tile];
  if (!joined_by_last(merge)) return;
  const auto thread = static_cast<int>(threadIdx.x);
  std::uint32_t* const ended = args.splits.ended + tile * args.kv_heads + kv_head;
  __threadfence();  // what this thread has left is there for all before the block counts
  __syncthreads();
  if (thread == 0) ended_before[0] = atomicAdd(ended, 1U);
  __syncthreads();
  if (ended_before[0] + 1 != static_cast<std::uint32_t>(merge.splits)) return;
  __threadfence();              // and nothing is read before it has counted
  if (thread == 0) *ended = 0;  // for the next call
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (std::int32_t row = thread / 32; row < merge.rows; row += warps)
    join_row<kWidth, kCoded, (kWidth > 128 ? kJoinedAhead / 2 : kJoinedAhead)>(args, tile, kv_head,
                                                                               row, thread % 32);
}

}  // namespace saccade::cuda
