// The tensor cores' attention, over numbers or over bytes: f32 softmax and sums. A tile is 64 rows
// of one sequence and key head, the heads of a group beside each other, so that decode fills it
// too. Keys come in tiles that begin at fixed tokens, and one that a row does not see leaves the
// row's state as it was; splits (attention_parts.h) end where tiles do. So bits depend on the row's
// own sequence alone.
//
// What differs is a Form: how keys and values lie in shared memory, and become operands.
//   Element                 of their rows there, kStride from token to token
//   kScaled                 each row has a scale: a key's goes to its score, a value's to its
//   weight query_place(col)        where a query has column `col`, so that score() meets it in the
//   key's score(scores, q, keys)  adds up products of 16 rows of queries, from `q` on, with a
//   tile's keys mix(out, w, values)     adds weights times values; out[d][e] is column out_col(d,
//   lane) +
//                           kOutStep * (e % 2) of row lane / 4 + e / 2 * 8
#pragma once

#include <algorithm>

#include "ops/cuda/attention_join.h"
#include "ops/cuda/attention_rows.h"
#include "ops/cuda/grid.h"

namespace saccade::cuda {

constexpr int kAttentionThreads = 128;  // four warps of 16 rows

template <int kDim>
struct AttentionSizes {
  static constexpr int kQueryStride = kDim + 8;
  static constexpr int kTokens = kDim > 128 ? 32 : 64;  // of a tile of keys
  static constexpr int kTokenTiles = kTokens / 8;
  static constexpr int kDimTiles = kDim / 8;
  static constexpr int kQueryBytes = kAttentionTileRows * kQueryStride * 2;
};

// Keys, values and their scales of one tile.
template <typename Form, int kDim>
struct AttentionStage {
  static constexpr int kTokens = AttentionSizes<kDim>::kTokens;
  static constexpr int kElements = kTokens * Form::kStride;  // of keys, or of values
  static constexpr int kScaleBytes = Form::kScaled ? 2 * kTokens * 4 : 0;
  static constexpr int kBytes =
      2 * kElements * static_cast<int>(sizeof(typename Form::Element)) + kScaleBytes;
  static_assert(kBytes % 16 == 0 && 2 * kTokens <= kAttentionThreads);
};

// Tokens [first, first + kTokens) of one key head: keys, or values. Those outside of [begin, end)
// become zero: what lies there may be anything.
template <typename Form, int kDim>
SACCADE_DEVICE void fetch_tokens(typename Form::Element* to, const AttentionKernelArgs& args,
                                 const AttentionSequence& sequence, std::int64_t kv_head,
                                 bool values, std::int32_t first, std::int32_t begin,
                                 std::int32_t end) {
  using Element = typename Form::Element;
  constexpr int kChunk = 16 / static_cast<int>(sizeof(Element));  // head_dim is a multiple of it
  constexpr int kChunks = kDim / kChunk;
  for (int i = static_cast<int>(threadIdx.x); i < AttentionSizes<kDim>::kTokens * kChunks;
       i += kAttentionThreads) {
    const std::int32_t token = first + i / kChunks;
    const int col = i % kChunks * kChunk;
    const bool inside = token >= begin && token < end && col < args.head_dim;
    const void* const source =
        inside ? token_row<Element>(args, sequence, kv_head, values, token) : nullptr;
    // What is not read has to be aligned as well.
    const void* const nowhere = args.pages.base != nullptr ? args.pages.base : args.k.data;
    async_copy(to + i / kChunks * Form::kStride + col,
               source != nullptr ? static_cast<const Element*>(source) + col : nowhere,
               source != nullptr ? 16 : 0);
  }
}

SACCADE_DEVICE std::uint32_t pack_pair(float low, float high) {
  Bf16 a;
  Bf16 b;
  narrow(low, a);
  narrow(high, b);
  return std::uint32_t{a.bits} | std::uint32_t{b.bits} << 16;
}

// Weights of tokens [8 n, 8 n + 16) as the left operand.
template <int kTiles>
SACCADE_DEVICE void pack_weights(std::uint32_t (&a)[4], const float (&weights)[kTiles][4], int n) {
  a[0] = pack_pair(weights[n][0], weights[n][1]);
  a[1] = pack_pair(weights[n][2], weights[n][3]);
  a[2] = pack_pair(weights[n + 1][0], weights[n + 1][1]);
  a[3] = pack_pair(weights[n + 1][2], weights[n + 1][3]);
}

// What a lane has of two rows: scores are times log2 e, the sums of weights are its part of them
// until a split ends.
template <int kDim>
struct LaneRows {
  RowState state[2];
  float out[AttentionSizes<kDim>::kDimTiles][4];
};

// A lane's part of partial row `to` of one of its rows: each reads what it wrote itself.
template <int kDim>
SACCADE_DEVICE void keep_partial(const LaneRows<kDim>& rows, int half, int lane, float* to) {
  float* const mine = to + lane % 4 * 2;
#pragma unroll
  for (int d = 0; d < AttentionSizes<kDim>::kDimTiles; ++d) {
    const float sums[2] = {rows.out[d][2 * half], rows.out[d][2 * half + 1]};
    store(sums, mine + d * 8);
  }
  const float state[2] = {rows.state[half].max, rows.state[half].sum};
  store(state, mine + kDim);
}

// Puts what lies in `from` before what the lane has.
template <int kDim>
SACCADE_DEVICE void join_partial(LaneRows<kDim>& rows, int half, int lane, const float* from) {
  const float* const mine = from + lane % 4 * 2;
  float state[2];
  load(mine + kDim, state);
  const Join join({state[0], state[1]}, rows.state[half], [](float x) { return exp2f(x); });
  rows.state[half] = join.state();
#pragma unroll
  for (int d = 0; d < AttentionSizes<kDim>::kDimTiles; ++d) {
    float earlier[2];
    load(mine + d * 8, earlier);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& sum = rows.out[d][2 * half + e];
      sum = join.of(earlier[e], sum);
    }
  }
}

// What this block is for. Read again where it is asked for: it is in no register meanwhile.
SACCADE_DEVICE AttentionPart part_of_block(const AttentionKernelArgs& args) {
  if (args.splits.parts != nullptr) return args.splits.parts[blockIdx.x];
  return {static_cast<std::int32_t>(blockIdx.x), -1, -1};
}

// Two blocks are enough: for a third the compiler would keep registers in memory.
template <typename Form, int kDim>
__global__ void __launch_bounds__(kAttentionThreads, 2) attention_kernel(AttentionKernelArgs args) {
  using S = AttentionSizes<kDim>;
  using Stage = AttentionStage<Form, kDim>;
  using Element = typename Form::Element;
  constexpr float kLog2E = 1.44269504088896341f;
  const AttentionPart part = part_of_block(args);
  if (part.tile < 0) return;
  SACCADE_DYNAMIC_SHARED(std::byte, shared);
  auto* const queries = reinterpret_cast<Bf16*>(shared);
  std::byte* const stages = shared + S::kQueryBytes;  // two
  const AttentionTile tile = args.tiles[part.tile];
  const AttentionSequence sequence = args.sequences[tile.sequence];
  const std::int64_t kv_head = blockIdx.y;
  const std::int64_t group = args.heads / args.kv_heads;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp_row = thread / 32 * 16;

  for (int i = thread; i < kAttentionTileRows * kDim; i += kAttentionThreads) {
    const RowPlace place = place_of(args, sequence, tile.first + i / kDim, group);
    const int col = i % kDim;
    Bf16 value{0};
    if (place.inside && col < args.head_dim)
      value = static_cast<const Bf16*>(
          args.q.data)[place.row * args.q.stride +
                       (kv_head * group + place.member) * args.head_dim + col];
    queries[i / kDim * S::kQueryStride + Form::query_place(col)] = value;
  }
  // Tokens that any row of the tile sees: rows are in order, and so are both ends.
  std::int32_t begin = std::numeric_limits<std::int32_t>::max();
  std::int32_t end = 0;
  for (int i = lane; i < kAttentionTileRows; i += 32) {
    const RowPlace place = place_of(args, sequence, tile.first + i, group);
    if (!place.inside) continue;
    begin = smaller(begin, place.begin);
    end = larger(end, place.end);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    begin = smaller(begin, __shfl_xor_sync(kFullWarp, begin, mask));
    end = larger(end, __shfl_xor_sync(kFullWarp, end, mask));
  }
  const std::int32_t split_tokens = args.splits.tokens;
  if (part.split >= 0) {
    begin = larger(begin, part.split * split_tokens);
    end = smaller(end, (part.split + 1) * split_tokens);
  }
  // This lane's two rows: lane / 4 of the warp's, and 8 further on. Where they are is read again
  // when a split ends, and kept in no register until then; what they see is.
  const auto mine = [&](int half) {
    const AttentionTile& at = args.tiles[part_of_block(args).tile];
    return place_of(args, args.sequences[at.sequence], at.first + warp_row + lane / 4 + 8 * half,
                    group);
  };
  std::int32_t seen_begin[2];
  std::int32_t seen_end[2];
  for (int half = 0; half < 2; ++half) {
    const RowPlace place = mine(half);
    seen_begin[half] = place.begin;
    seen_end[half] = place.end;
  }

  const std::int32_t first_tile = begin / S::kTokens;
  const std::int32_t tiles = end > begin ? (end + S::kTokens - 1) / S::kTokens : first_tile;
  const auto stage_of = [&](std::int32_t t) { return stages + t % 2 * Stage::kBytes; };
  const auto scales_of = [&](std::int32_t t) {
    return reinterpret_cast<float*>(stage_of(t) + 2 * Stage::kElements * sizeof(Element));
  };
  const auto fetch = [&](std::int32_t t) {
    if (t < tiles) {
      auto* const stage = reinterpret_cast<Element*>(stage_of(t));
      fetch_tokens<Form, kDim>(stage, args, sequence, kv_head, false, t * S::kTokens, begin, end);
      fetch_tokens<Form, kDim>(stage + Stage::kElements, args, sequence, kv_head, true,
                               t * S::kTokens, begin, end);
    }
    async_commit();
  };
  // Each of the first threads has one scale of a tile under way in a register: keys' before
  // values'.
  float coming = 0;
  const auto ask_scale = [&](std::int32_t t) {
    const std::int32_t token = t * S::kTokens + thread % S::kTokens;
    const bool asked = t < tiles && thread < 2 * S::kTokens && token >= begin && token < end;
    coming = asked ? token_scale(args, sequence, kv_head, thread >= S::kTokens, token) : 0.0f;
  };
  const auto keep_scale = [&](std::int32_t t) {
    if (thread < 2 * S::kTokens) scales_of(t)[thread] = coming;
  };

  // Where in scratch what a split makes lies until the next: of the part, or of the block.
  const auto partial_of = [&](int half) {
    const std::int32_t partial = part_of_block(args).partial;
    const std::int64_t first =
        partial < 0 ? std::int64_t{blockIdx.x} * kAttentionTileRows : partial;
    return partial_row<kDim>(args, first + warp_row + lane / 4 + 8 * half, kv_head);
  };

  LaneRows<kDim> rows;
  fetch(first_tile);
  if constexpr (Form::kScaled) {
    ask_scale(first_tile);
    keep_scale(first_tile);
  }
  const std::int32_t split_tiles = split_tokens / S::kTokens;
  bool later = false;  // than another split of this block
  for (std::int32_t t = first_tile;;) {
    const std::int32_t stop = smaller(tiles, (t / split_tiles + 1) * split_tiles);
#pragma unroll
    for (int half = 0; half < 2; ++half) rows.state[half] = RowState{};
#pragma unroll
    for (int d = 0; d < S::kDimTiles; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) rows.out[d][e] = 0;
    for (; t < stop; ++t) {
      fetch(t + 1);
      if constexpr (Form::kScaled) ask_scale(t + 1);
      async_wait<1>();
      __syncthreads();
      const auto* const keys = reinterpret_cast<const Element*>(stage_of(t));
      const float* const key_scales = scales_of(t);
      const float* const value_scales = key_scales + S::kTokens;

      float scores[S::kTokenTiles][4] = {};
      Form::score(scores, queries + warp_row * S::kQueryStride, keys, lane);

      float largest[2] = {kUnseen, kUnseen};
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int at = n * 8 + lane % 4 * 2 + e % 2;
          const std::int32_t token = t * S::kTokens + at;
          float score = scores[n][e];
          if constexpr (Form::kScaled) score *= key_scales[at];
          score *= args.scale;
          if (args.softcap > 0) score = args.softcap * tanhf(score / args.softcap);
          score = token >= seen_begin[e / 2] && token < seen_end[e / 2] ? score * kLog2E : kUnseen;
          scores[n][e] = score;
          largest[e / 2] = larger(largest[e / 2], score);
        }
      }
      float shrink[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int mask = 1; mask <= 2; mask *= 2)
          largest[half] = larger(largest[half], __shfl_xor_sync(kFullWarp, largest[half], mask));
        const float max = larger(rows.state[half].max, largest[half]);
        shrink[half] = max == rows.state[half].max ? 1.0f : exp2f(rows.state[half].max - max);
        rows.state[half].max = max;
        rows.state[half].sum *= shrink[half];
      }
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const bool seen = scores[n][e] != kUnseen;
          float weight = seen ? exp2f(scores[n][e] - rows.state[e / 2].max) : 0.0f;
          rows.state[e / 2].sum += weight;
          // A scale that is no number stays with those who see its row.
          if constexpr (Form::kScaled)
            weight = seen ? weight * value_scales[n * 8 + lane % 4 * 2 + e % 2] : 0.0f;
          scores[n][e] = weight;
        }
      }
#pragma unroll
      for (int d = 0; d < S::kDimTiles; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) rows.out[d][e] *= shrink[e / 2];
      Form::mix(rows.out, scores, keys + Stage::kElements, lane);
      if constexpr (Form::kScaled) keep_scale(t + 1);
      __syncthreads();  // before the next fetch but one writes here
    }
    const bool last = t >= tiles;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int mask = 1; mask <= 2; mask *= 2)
        rows.state[half].sum += __shfl_xor_sync(kFullWarp, rows.state[half].sum, mask);
      if (!mine(half).inside) continue;
      if (later) join_partial(rows, half, lane, partial_of(half));
      if (!last || part_of_block(args).partial >= 0)
        keep_partial(rows, half, lane, partial_of(half));
    }
    if (last) break;
    later = true;
  }
  if (part_of_block(args).partial >= 0) return;

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const RowPlace place = mine(half);
    if (!place.inside) continue;
    const float sum = rows.state[half].sum;
    const float scale = sum > 0 ? 1 / sum : 0.0f;
    Bf16* const to = static_cast<Bf16*>(args.out.data) + place.row * args.out.stride +
                     (kv_head * group + place.member) * args.head_dim;
#pragma unroll
    for (int d = 0; d < S::kDimTiles; ++d) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int col = Form::out_col(d, lane) + Form::kOutStep * e;
        if (col < args.head_dim) narrow(rows.out[d][2 * half + e] * scale, to[col]);
      }
    }
  }
}

template <template <int> typename Form, int kDim>
void launch_attention_tiles(const AttentionKernelArgs& args, cudaStream_t stream) {
  static_assert(attention_width(kDim) == kDim);
  constexpr int kSharedBytes =
      AttentionSizes<kDim>::kQueryBytes + 2 * AttentionStage<Form<kDim>, kDim>::kBytes;
  const AttentionSplits& splits = args.splits;
  const std::int64_t count = splits.parts != nullptr ? splits.part_count : args.tile_count;
  const std::int64_t band = splits.band > 0 ? splits.band : count;
  AttentionKernelArgs some = args;
  for (std::int64_t first = 0; first < count; first += band) {
    some.tiles = args.tiles + first;
    SACCADE_LAUNCH((attention_kernel<Form<kDim>, kDim>),
                   dim3(static_cast<unsigned>(std::min(band, count - first)),
                        static_cast<unsigned>(args.kv_heads)),
                   dim3(kAttentionThreads), kSharedBytes, stream, some);
  }
}

// Of the smallest size that holds a head.
template <template <int> typename Form>
void launch_attention_form(const AttentionKernelArgs& args, cudaStream_t stream) {
  switch (attention_width(args.head_dim)) {
    case 64:
      return launch_attention_tiles<Form, 64>(args, stream);
    case 80:
      return launch_attention_tiles<Form, 80>(args, stream);
    case 96:
      return launch_attention_tiles<Form, 96>(args, stream);
    case 128:
      return launch_attention_tiles<Form, 128>(args, stream);
    default:
      return launch_attention_tiles<Form, 256>(args, stream);
  }
}

inline bool whole_chunks(const void* data, std::int64_t stride_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

}  // namespace saccade::cuda
