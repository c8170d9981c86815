// The tensor cores' attention, over numbers or over bytes: f32 softmax and sums. A tile is up to 64
// rows of one sequence and key head, the heads of a group beside each other. Keys come in tiles
// that begin at fixed tokens, and one that a row does not see leaves the row's state as it was;
// splits (attention_parts.h) end where tiles do. So bits depend on the row's own sequence alone.
//
// What differs is a Form: how keys and values lie in shared memory, and become operands.
// - Element: of their rows there, kStride from token to token.
// - kScaled: each row has a scale; a key's goes to its score, a value's to its weight.
// - query(words, row, left, lane): 16 columns of a row of queries as two words of the left operand,
//   where `left` columns are there.
// - score(scores, query, keys, lane): adds up products of 16 rows of queries with the keys from
//   `keys` on.
// - mix(low, high, weights, values, lane): adds weights times values, of kMixTokens tokens and 16
//   columns.
// - put(row, left, low, high, lane): those results of a row, where they belong.
#pragma once

#include <type_traits>

#include "ops/cuda/attention/attention_fetch.h"
#include "ops/cuda/attention/attention_softmax.h"

namespace saccade::cuda {

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

// Two elements from anywhere.
SACCADE_DEVICE std::uint32_t pair_at(const Bf16* low, const Bf16* high) {
  return std::uint32_t{low->bits} | std::uint32_t{high->bits} << 16;
}

// A row of queries of this key head. One that is not inside has any, which nobody asks for.
SACCADE_DEVICE const Bf16* query_row(const AttentionTileArgs& args, const RowPlace& place,
                                     std::int32_t kv_head) {
  return static_cast<const Bf16*>(args.q.data) + place.row * args.q.stride +
         (kv_head * args.group + place.member) * args.dim;
}
SACCADE_DEVICE Bf16* out_row(const AttentionTileArgs& args, const RowPlace& place,
                             std::int32_t kv_head) {
  return static_cast<Bf16*>(args.out.data) + place.row * args.out.stride +
         (kv_head * args.group + place.member) * args.dim;
}

// Queries of rows lane / 4 and 8 further on as left operands, 16 columns each.
template <typename Form, int kPairs>
SACCADE_DEVICE void load_queries(std::uint32_t (&a)[kPairs][4], const AttentionTileArgs& args,
                                 const Bf16* const (&rows)[2], int lane) {
  const auto load_all = [&](auto whole) {
#pragma unroll
    for (int k = 0; k < kPairs; ++k)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t words[2] = {0, 0};
        const int left = args.dim - 16 * k;
        Form::template query<decltype(whole)::value>(words, rows[half] + 16 * k, left, lane);
        a[k][half] = words[0];
        a[k][2 + half] = words[1];
      }
  };
  if (args.whole_queries)
    load_all(std::true_type{});
  else
    load_all(std::false_type{});
}

// What this block is for. Read again where it is asked for: it is in no register meanwhile.
SACCADE_DEVICE AttentionPart part_of_block(const AttentionKernelArgs& args) {
  if (args.splits.parts != nullptr) return args.splits.parts[blockIdx.x];
  return {static_cast<std::int32_t>(blockIdx.x), -1, -1};
}

// Tokens that a part goes over, of those that its rows see.
struct PartTokens {
  std::int32_t begin;
  std::int32_t end;

  SACCADE_DEVICE void keep_split(const AttentionPart& part, std::int32_t split_tokens) {
    if (part.split < 0) return;
    begin = larger(begin, part.split * split_tokens);
    end = smaller(end, (part.split + 1) * split_tokens);
  }
};

// Scores of 8 kTiles tokens from `token` on, as mma() leaves them, made ready for the softmax: soft
// caps, and what a row does not see.
template <int kTiles>
SACCADE_DEVICE void cap_scores(float (&scores)[kTiles][4], const AttentionTileArgs& args) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      scores[n][e] = soft_capped(scores[n][e], args.cap_exponent, args.softcap);
}
template <int kTiles>
SACCADE_DEVICE void mask_scores(float (&scores)[kTiles][4], std::int32_t token, int lane,
                                const std::int32_t (&seen_begin)[2],
                                const std::int32_t (&seen_end)[2]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const std::int32_t at = token + n * 8 + lane % 4 * 2 + e % 2;
      if (at < seen_begin[e / 2] || at >= seen_end[e / 2]) scores[n][e] = kUnseen;
    }
}

// A lane's part of partial row `to` of one of its rows: each reads what it wrote itself.
template <int kDimTiles>
SACCADE_DEVICE void keep_partial(const float (&out)[kDimTiles][4], const RowState& state, int half,
                                 int lane, float* to) {
  float* const mine = to + lane % 4 * 2;
#pragma unroll
  for (int d = 0; d < kDimTiles; ++d) {
    const float sums[2] = {out[d][2 * half], out[d][2 * half + 1]};
    store(sums, mine + d * 8);
  }
  const float rest[2] = {state.max, state.sum};
  store(rest, mine + kDimTiles * 8);
}

// Puts what lies in `from` before what the lane has.
template <int kDimTiles>
SACCADE_DEVICE void join_partial(float (&out)[kDimTiles][4], RowState& state, int half, int lane,
                                 const float* from) {
  const float* const mine = from + lane % 4 * 2;
  float rest[2];
  load(mine + kDimTiles * 8, rest);
  const Join join({rest[0], rest[1]}, state, Exp2());
  state = join.state();
#pragma unroll
  for (int d = 0; d < kDimTiles; ++d) {
    float earlier[2];
    load(mine + d * 8, earlier);
#pragma unroll
    for (int e = 0; e < 2; ++e) out[d][2 * half + e] = join.of(earlier[e], out[d][2 * half + e]);
  }
}

// Columns of a lane, `kPairs` times 16 of them `kStep` apart from `first` on, of one of its rows.
template <typename Form, int kPairs, int kStep = 1>
SACCADE_DEVICE void put_row(const AttentionTileArgs& args, Bf16* row, int first, float scale,
                            const float (&sums)[2 * kPairs][4], int half, int lane) {
  const auto put_all = [&](auto whole) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int pair = first + i * kStep;
      const float low[2] = {sums[2 * i][2 * half] * scale, sums[2 * i][2 * half + 1] * scale};
      const float high[2] = {sums[2 * i + 1][2 * half] * scale,
                             sums[2 * i + 1][2 * half + 1] * scale};
      Form::template put<decltype(whole)::value>(row + 16 * pair, args.dim - 16 * pair, low, high,
                                                 lane);
    }
  };
  if (args.whole_out)
    put_all(std::true_type{});
  else
    put_all(std::false_type{});
}

// Keys, values and their scales of one tile.
template <typename Form, int kDim>
struct AttentionStage {
  static constexpr int kTokens = AttentionSizes<kDim>::kTokens;
  static constexpr int kElements = KeyRows<Form, kDim>::kElements;
  static constexpr int kScaleBytes = Form::kScaled ? 2 * kTokens * 4 : 0;
  static constexpr int kBytes =
      2 * kElements * static_cast<int>(sizeof(typename Form::Element)) + kScaleBytes;
  static_assert(kBytes % 16 == 0);
};

// Queries stay in registers where there is room for them.
template <int kDim>
constexpr bool kQueriesInRegisters = kDim <= 96;
template <int kDim>
constexpr int kQueryBytes =
    kQueriesInRegisters<kDim> ? 0
                              : kAttentionTileRows * (kDim + 8) * static_cast<int>(sizeof(Bf16));

// Two blocks are enough: for a third the compiler would keep registers in memory.
template <typename Form, int kDim>
__global__ void __launch_bounds__(kAttentionThreads, 2) attention_kernel(AttentionTileArgs args) {
  using S = AttentionSizes<kDim>;
  using Stage = AttentionStage<Form, kDim>;
  using Element = typename Form::Element;
  constexpr int kQueryStride = kDim + 8;
  constexpr bool kJoined = kDim <= kMaxJoinedWidth;
  // A walk begins with the last rows, which see most.
  const auto part_here = [&] {
    AttentionPart part = part_of_block(args);
    if (args.splits.parts == nullptr)
      part.tile = static_cast<std::int32_t>(gridDim.x - 1 - blockIdx.x);
    return part;
  };
  const AttentionPart part = part_here();
  if (part.tile < 0) return;
  SACCADE_DYNAMIC_SHARED(std::byte, shared);
  std::byte* const stages = shared + kQueryBytes<kDim>;  // two
  const AttentionTile tile = args.tiles[part.tile];
  const AttentionSequence sequence = args.sequences[tile.sequence];
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const int thread = attention_thread();
  const int lane = thread % 32;
  const int warp_row = thread / 32 * 16;

  // Tokens that any row of the tile sees, and those that all of this warp's rows do.
  PartTokens tokens = {std::numeric_limits<std::int32_t>::max(), 0};
  std::int32_t whole_begin = 0;
  std::int32_t whole_end = std::numeric_limits<std::int32_t>::max();
#pragma unroll
  for (int i = lane; i < kAttentionTileRows; i += 32) {
    const RowPlace place = tile_row(args, sequence, tile.first + i);
    if (!place.inside) continue;
    tokens.begin = smaller(tokens.begin, place.begin);
    tokens.end = larger(tokens.end, place.end);
    if (i / 16 * 16 != warp_row) continue;
    whole_begin = larger(whole_begin, place.begin);
    whole_end = smaller(whole_end, place.end);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    tokens.begin = smaller(tokens.begin, __shfl_xor_sync(kFullWarp, tokens.begin, mask));
    tokens.end = larger(tokens.end, __shfl_xor_sync(kFullWarp, tokens.end, mask));
    whole_begin = larger(whole_begin, __shfl_xor_sync(kFullWarp, whole_begin, mask));
    whole_end = smaller(whole_end, __shfl_xor_sync(kFullWarp, whole_end, mask));
  }
  const std::int32_t split_tokens = args.splits.tokens;
  tokens.keep_split(part, split_tokens);
  // This lane's two rows: lane / 4 of the warp's, and 8 further on. Where they are is read again
  // when a split ends, and kept in no register until then; what they see is, where there is room.
  const auto mine = [&](int half) {
    const AttentionTile& at = args.tiles[part_here().tile];
    return tile_row(args, args.sequences[at.sequence], at.first + warp_row + lane / 4 + 8 * half);
  };

  const std::int32_t first_tile = tokens.begin / S::kTokens;
  const std::int32_t tiles =
      tokens.end > tokens.begin ? (tokens.end + S::kTokens - 1) / S::kTokens : first_tile;
  KeyRows<Form, kDim> rows(args, sequence, kv_head, tokens.begin, tokens.end);
  const auto stage_of = [&](std::int32_t t) { return stages + t % 2 * Stage::kBytes; };
  const auto scales_of = [&](std::int32_t t) {
    return reinterpret_cast<float*>(stage_of(t) + 2 * Stage::kElements * sizeof(Element));
  };
  // Behind the last tile there are zeros.
  const auto fetch = [&](std::int32_t t) {
    auto* const stage = reinterpret_cast<Element*>(stage_of(t));
    if (!kJoined) rows.look_up(args, t);
    rows.place(args, t);
    rows.copy(args, 0, stage);
    rows.copy(args, args.values_behind, stage + Stage::kElements);
    if constexpr (Form::kScaled) rows.copy_scales(args, t, scales_of(t));
    if (kJoined) rows.look_up(args, t + 1);  // on its way while this tile is
    async_commit();
  };
  if (kJoined) rows.look_up(args, first_tile);
  fetch(first_tile);

  [[maybe_unused]] std::int32_t seen_begin[2];
  [[maybe_unused]] std::int32_t seen_end[2];
  [[maybe_unused]] std::uint32_t kept_queries[kQueriesInRegisters<kDim> ? S::kDimPairs : 1][4];
  [[maybe_unused]] auto* const queries = reinterpret_cast<Bf16*>(shared) + warp_row * kQueryStride;
  {
    const Bf16* query_rows[2];
    for (int half = 0; half < 2; ++half) {
      const RowPlace place = mine(half);
      seen_begin[half] = place.begin;
      seen_end[half] = place.end;
      query_rows[half] = query_row(args, place, kv_head);
    }
    if constexpr (kQueriesInRegisters<kDim>) {
      load_queries<Form>(kept_queries, args, query_rows, lane);
    } else {
      std::uint32_t a[S::kDimPairs][4];
      load_queries<Form>(a, args, query_rows, lane);
#pragma unroll
      for (int k = 0; k < S::kDimPairs; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          *reinterpret_cast<std::uint32_t*>(queries + (lane / 4 + i % 2 * 8) * kQueryStride +
                                            k * 16 + i / 2 * 8 + lane % 4 * 2) = a[k][i];
    }
    __syncwarp();  // a warp reads its own rows alone
  }
  const auto query = [&](std::uint32_t(&a)[4], int k) {
    if constexpr (kQueriesInRegisters<kDim>) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = kept_queries[k][i];
    } else {
      ldmatrix(a, queries + lane % 16 * kQueryStride + k * 16 + lane / 16 * 8);
    }
  };

  const auto is_split = [&] {
    return args.splits.parts != nullptr && args.splits.parts[blockIdx.x].split >= 0;
  };
  // Where in scratch what a split makes lies until the next: of the part, or of the block.
  const auto partial_of = [&](int half) {
    const std::int32_t first = args.splits.parts != nullptr
                                   ? args.splits.parts[blockIdx.x].partial
                                   : static_cast<std::int32_t>(blockIdx.x) * kAttentionTileRows;
    return partial_row<kDim>(args, first + (warp_row + lane / 4 + 8 * half), kv_head);
  };

  float out[S::kDimTiles][4];
  RowState state[2];
  [[maybe_unused]] float joined[kJoined ? S::kDimTiles : 1][4] = {};
  [[maybe_unused]] RowState joined_state[2];
  const float factor = args.factor;
  const std::int32_t split_tiles = split_tokens / S::kTokens;
  bool later = false;  // than another split of this block
  for (std::int32_t t = first_tile;;) {
    const std::int32_t stop = smaller(tiles, (t / split_tiles + 1) * split_tiles);
    Reference reference[2];
    float sums[2][kKeyQuarters] = {};
#pragma unroll
    for (int d = 0; d < S::kDimTiles; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[d][e] = 0;
    for (; t < stop; ++t) {
      async_wait<0>();
      __syncthreads();  // the tile is there, and all have done with the one before it
      fetch(t + 1);
      const auto* const keys = reinterpret_cast<const Element*>(stage_of(t));
      [[maybe_unused]] const float* const key_scales = scales_of(t);

      float scores[S::kTokenTiles][4] = {};
      Form::template score<S::kTokenTiles>(scores, query, keys, lane);
      if constexpr (Form::kScaled) {
#pragma unroll
        for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) scores[n][e] *= key_scales[n * 8 + lane % 4 * 2 + e % 2];
      }
      if (args.softcap > 0) cap_scores(scores, args);
      const std::int32_t token = t * S::kTokens;
      if (token < whole_begin || token + S::kTokens > whole_end) {
        if constexpr (kJoined) {
          mask_scores(scores, token, lane, seen_begin, seen_end);
        } else {
          const RowPlace of[2] = {mine(0), mine(1)};
          mask_scores(scores, token, lane, {of[0].begin, of[1].begin}, {of[0].end, of[1].end});
        }
      }

      float shrink[2];
      float base[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float largest = kUnseen;
#pragma unroll
        for (int n = 0; n < S::kTokenTiles; ++n)
          largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        shrink[half] = reference[half].raise(max_of_quad(largest), factor);
        base[half] = reference[half].base();
      }
#pragma unroll
      for (int quarter = 0; quarter < kKeyQuarters; ++quarter) {
        float added[2] = {};
#pragma unroll
        for (int n = quarter * S::kQuarterTiles; n < (quarter + 1) * S::kQuarterTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            [[maybe_unused]] const bool seen = scores[n][e] != kUnseen;
            float weight = weight_of(scores[n][e], factor, base[e / 2]);
            added[e / 2] = add_apart(added[e / 2], weight);
            // A scale that is no number stays with those who see its row.
            if constexpr (Form::kScaled)
              weight = seen ? weight * key_scales[S::kTokens + n * 8 + lane % 4 * 2 + e % 2] : 0.0f;
            scores[n][e] = weight;
          }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
          sums[half][quarter] = fmaf(sums[half][quarter], shrink[half], added[half]);
      }
      if (__any_sync(kFullWarp, shrink[0] != 1 || shrink[1] != 1)) {
#pragma unroll
        for (int d = 0; d < S::kDimTiles; ++d)
#pragma unroll
          for (int e = 0; e < 4; ++e) out[d][e] *= shrink[e / 2];
      }
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; n += Form::kMixTokens / 8) {
        std::uint32_t weights[Form::kMixTokens / 16][4];
#pragma unroll
        for (int i = 0; i < Form::kMixTokens / 16; ++i) pack_weights(weights[i], scores, n + 2 * i);
#pragma unroll
        for (int d = 0; d < S::kDimTiles; d += 2)
          Form::mix(out[d], out[d + 1], weights,
                    keys + Stage::kElements + n * 8 * Form::kStride + d * 8, lane);
      }
    }
    const bool last = t >= tiles;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int quarter = 0; quarter < kKeyQuarters; ++quarter)
        sums[half][quarter] = sum_of_quad(sums[half][quarter]);
      state[half] = {reference[half].base(), sum_of_quarters(sums[half])};
    }
    if constexpr (kJoined) {
      if (!is_split()) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Join join(joined_state[half], state[half], Exp2());
          joined_state[half] = join.state();
#pragma unroll
          for (int d = 0; d < S::kDimTiles; ++d)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; ++e)
              joined[d][e] = join.of(joined[d][e], out[d][e]);
        }
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (is_split() || !mine(half).inside) continue;
        if (later) join_partial(out, state[half], half, lane, partial_of(half));
        if (!last) keep_partial(out, state[half], half, lane, partial_of(half));
      }
    }
    if (last) break;
    later = true;
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const RowPlace place = mine(half);
    if (!place.inside) continue;
    if (is_split() && args.splits.parts[blockIdx.x].partial >= 0) {
      keep_partial(out, state[half], half, lane, partial_of(half));
      continue;
    }
    if constexpr (kJoined) {
      if (!is_split()) {
        state[half] = joined_state[half];
#pragma unroll
        for (int d = 0; d < S::kDimTiles; ++d)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) out[d][e] = joined[d][e];
      }
    }
    const float scale = inverse_sum(state[half].sum);
    Bf16* const to = out_row(args, place, kv_head);
    put_row<Form, S::kDimPairs>(args, to, 0, scale, out, half, lane);
  }
}

}  // namespace saccade::cuda
