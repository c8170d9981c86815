// The tensor cores' attention for tiles of few rows, as decode has: the four warps of a block share
// a tile's keys. Each multiplies the queries by a quarter of the keys; they tell each other the
// largest scores and the weights, and each adds up values for columns of its own. No sum is taken
// in another order than attention_kernel() takes it in, so bits are the same.
//
// Keys and values come through a ring of five places, two tiles ahead.
#pragma once

#include "ops/cuda/attention/attention_merge.h"
#include "ops/cuda/attention/attention_tiles.h"

namespace saccade::cuda {

template <typename Form, int kDim>
struct FewSizes {
  using S = AttentionSizes<kDim>;
  static constexpr int kPlaces = 5;
  // Scales are behind the keys, also those of the values.
  static constexpr int kPlaceBytes =
      KeyRows<Form, kDim>::kElements * static_cast<int>(sizeof(typename Form::Element)) +
      (Form::kScaled ? 2 * S::kTokens * static_cast<int>(sizeof(float)) : 0);
  static constexpr int kWeightStride = S::kTokens + 8;
  static constexpr int kWeightBytes =
      kFewAttentionRows * kWeightStride * static_cast<int>(sizeof(Bf16));
  static constexpr int kExchangeBytes = kKeyQuarters * kFewAttentionRows *
                                        static_cast<int>(sizeof(float));  // a number a row and warp
  static constexpr int kSharedBytes = kPlaces * kPlaceBytes + kWeightBytes + 2 * kExchangeBytes;
  static constexpr int kQuarterTokens = S::kTokens / kKeyQuarters;
  static constexpr int kPairs = (S::kDimPairs + 3) / 4;  // of 16 columns, at most, of a warp
  static_assert(kPlaceBytes % 16 == 0 && kWeightBytes % 16 == 0);
};

// A number of each warp for each of the lane's rows becomes known to all. Wants a barrier between
// give() and taking.
class FewExchange {
 public:
  SACCADE_DEVICE explicit FewExchange(std::byte* shared)
      : numbers_(reinterpret_cast<float*>(shared)) {}
  SACCADE_DEVICE void give(const float (&mine)[2], int warp, int lane) const {
    if (lane % 4 != 0) return;
    for (int half = 0; half < 2; ++half)
      numbers_[warp * kFewAttentionRows + lane / 4 + 8 * half] = mine[half];
  }
  SACCADE_DEVICE void take(float (&all)[kKeyQuarters], int half, int lane) const {
#pragma unroll
    for (int warp = 0; warp < kKeyQuarters; ++warp)
      all[warp] = numbers_[warp * kFewAttentionRows + lane / 4 + 8 * half];
  }

 private:
  float* numbers_;
};

template <typename Form, int kDim>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    few_attention_kernel(AttentionTileArgs args) {
  using S = AttentionSizes<kDim>;
  using Few = FewSizes<Form, kDim>;
  using Element = typename Form::Element;
  const AttentionPart part = part_of_block(args);
  if (part.tile < 0) return;
  SACCADE_DYNAMIC_SHARED(std::byte, shared);
  auto* const shared_weights = reinterpret_cast<Bf16*>(shared + Few::kPlaces * Few::kPlaceBytes);
  std::byte* const exchanges = shared + Few::kPlaces * Few::kPlaceBytes + Few::kWeightBytes;
  const FewExchange largest_scores(exchanges);
  const FewExchange weight_sums(exchanges + Few::kExchangeBytes);
  const AttentionTile tile = args.tiles[part.tile];
  const AttentionSequence sequence = args.sequences[tile.sequence];
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const int thread = attention_thread();
  const int lane = thread % 32;
  const int warp = thread / 32;

  const RowPlace places[2] = {tile_row(args, sequence, tile.first + lane / 4),
                              tile_row(args, sequence, tile.first + lane / 4 + 8)};
  const std::int32_t seen_begin[2] = {places[0].begin, places[1].begin};
  const std::int32_t seen_end[2] = {places[0].end, places[1].end};
  PartTokens tokens = {std::numeric_limits<std::int32_t>::max(), 0};
  std::int32_t whole_begin = 0;
  std::int32_t whole_end = std::numeric_limits<std::int32_t>::max();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!places[half].inside) continue;
    tokens.begin = smaller(tokens.begin, seen_begin[half]);
    tokens.end = larger(tokens.end, seen_end[half]);
    whole_begin = larger(whole_begin, seen_begin[half]);
    whole_end = smaller(whole_end, seen_end[half]);
  }
#pragma unroll
  for (int mask = 4; mask <= 16; mask *= 2) {
    tokens.begin = smaller(tokens.begin, __shfl_xor_sync(kFullWarp, tokens.begin, mask));
    tokens.end = larger(tokens.end, __shfl_xor_sync(kFullWarp, tokens.end, mask));
    whole_begin = larger(whole_begin, __shfl_xor_sync(kFullWarp, whole_begin, mask));
    whole_end = smaller(whole_end, __shfl_xor_sync(kFullWarp, whole_end, mask));
  }
  tokens.keep_split(part, args.splits.tokens);
  const std::int32_t first_tile = tokens.begin / S::kTokens;
  const std::int32_t tiles =
      tokens.end > tokens.begin ? (tokens.end + S::kTokens - 1) / S::kTokens : first_tile;

  KeyRows<Form, kDim> rows(args, sequence, kv_head, tokens.begin, tokens.end);
  const auto at_place = [&](int place) {
    return reinterpret_cast<Element*>(shared + place * Few::kPlaceBytes);
  };
  const auto scales_of = [](Element* keys) {
    return reinterpret_cast<float*>(keys + KeyRows<Form, kDim>::kElements);
  };
  // The next place but `more`, of a ring.
  const auto after = [](int place, int more) {
    return place + more < Few::kPlaces ? place + more : place + more - Few::kPlaces;
  };
  // Behind the last tile there are zeros: a branch here would keep copies from being asked for
  // between products.
  const auto fetch_keys = [&](std::int32_t t, int place) {
    rows.place(args, t);
    rows.copy(args, 0, at_place(place));
    if constexpr (Form::kScaled) rows.copy_scales(args, t, scales_of(at_place(place)));
    async_commit();
    rows.look_up(args, t + 1);
  };
  const auto fetch_values = [&](int place) {  // of the tile whose keys were fetched last
    rows.copy(args, args.values_behind, at_place(place));
    async_commit();
  };
  rows.look_up(args, first_tile);
  fetch_keys(first_tile, 0);
  fetch_values(1);
  fetch_keys(first_tile + 1, 2);
  fetch_values(3);
  std::uint32_t queries[S::kDimPairs][4];
  {
    const Bf16* const query_rows[2] = {query_row(args, places[0], kv_head),
                                       query_row(args, places[1], kv_head)};
    load_queries<Form>(queries, args, query_rows, lane);
  }
  const auto query = [&](std::uint32_t(&a)[4], int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = queries[k][i];
  };

  float out[2 * Few::kPairs][4];
  float joined[2 * Few::kPairs][4] = {};
  RowState state[2];
  RowState joined_state[2];
  const float factor = args.factor;
  const std::int32_t split_tiles = args.splits.tokens / S::kTokens;
  int place = 0;  // of the tile's keys
  for (std::int32_t t = first_tile;;) {
    const std::int32_t stop = smaller(tiles, (t / split_tiles + 1) * split_tiles);
    Reference reference[2];
    float sums[2] = {};  // of this lane's part of the warp's quarter
#pragma unroll
    for (int d = 0; d < 2 * Few::kPairs; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[d][e] = 0;
    for (; t < stop; ++t) {
      async_wait<3>();
      __syncthreads();  // keys are there, and all have done with the last tile's values
      float scores[S::kQuarterTiles][4] = {};
      Form::template score<S::kQuarterTiles>(
          scores, query, at_place(place) + warp * Few::kQuarterTokens * Form::kStride, lane);
      fetch_keys(t + 2, after(place, 4));
      [[maybe_unused]] float value_scales[S::kQuarterTiles][2];
      if constexpr (Form::kScaled) {
        const float* const scales = scales_of(at_place(place)) + warp * Few::kQuarterTokens;
#pragma unroll
        for (int n = 0; n < S::kQuarterTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int token = n * 8 + lane % 4 * 2 + e;
            scores[n][e] *= scales[token];
            scores[n][2 + e] *= scales[token];
            value_scales[n][e] = scales[S::kTokens + token];
          }
        }
      }
      if (args.softcap > 0) cap_scores(scores, args);
      const std::int32_t token = t * S::kTokens;
      if (token < whole_begin || token + S::kTokens > whole_end)
        mask_scores(scores, token + warp * Few::kQuarterTokens, lane, seen_begin, seen_end);

      float largest[2] = {kUnseen, kUnseen};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int n = 0; n < S::kQuarterTiles; ++n)
          largest[half] = fmaxf(largest[half], fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        largest[half] = max_of_quad(largest[half]);
      }
      largest_scores.give(largest, warp, lane);
      __syncthreads();  // largest scores are there, and all have done with the keys

      float shrink[2];
      float base[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float all[kKeyQuarters];
        largest_scores.take(all, half, lane);
        shrink[half] =
            reference[half].raise(fmaxf(fmaxf(all[0], all[1]), fmaxf(all[2], all[3])), factor);
        base[half] = reference[half].base();
      }
      float added[2] = {};
#pragma unroll
      for (int n = 0; n < S::kQuarterTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          [[maybe_unused]] const bool seen = scores[n][e] != kUnseen;
          float weight = weight_of(scores[n][e], factor, base[e / 2]);
          added[e / 2] = add_apart(added[e / 2], weight);
          if constexpr (Form::kScaled) weight = seen ? weight * value_scales[n][e % 2] : 0.0f;
          scores[n][e] = weight;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<std::uint32_t*>(shared_weights +
                                            (lane / 4 + 8 * half) * Few::kWeightStride +
                                            warp * Few::kQuarterTokens + n * 8 + lane % 4 * 2) =
              pack_pair(scores[n][2 * half], scores[n][2 * half + 1]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) sums[half] = fmaf(sums[half], shrink[half], added[half]);
#pragma unroll
      for (int d = 0; d < 2 * Few::kPairs; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) out[d][e] *= shrink[e / 2];
      async_wait<3>();
      __syncthreads();  // values are there, and all weights
      const Element* const values = at_place(after(place, 1));
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; n += Form::kMixTokens / 8) {
        std::uint32_t weights[Form::kMixTokens / 16][4];
#pragma unroll
        for (int i = 0; i < Form::kMixTokens / 16; ++i)
          ldmatrix(weights[i], shared_weights + lane % 16 * Few::kWeightStride + n * 8 + i * 16 +
                                   lane / 16 * 8);
#pragma unroll
        for (int i = 0; i < Few::kPairs; ++i) {
          const int pair = warp + 4 * i;
          if (pair < S::kDimPairs)
            Form::mix(out[2 * i], out[2 * i + 1], weights,
                      values + n * 8 * Form::kStride + pair * 16, lane);
        }
      }
      fetch_values(place);  // of the next tile but one, where this one's keys were
      place = after(place, 2);
    }
    const bool last = t >= tiles;
#pragma unroll
    for (int half = 0; half < 2; ++half) sums[half] = sum_of_quad(sums[half]);
    weight_sums.give(sums, warp, lane);
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all[kKeyQuarters];
      weight_sums.take(all, half, lane);
      state[half] = {reference[half].base(), sum_of_quarters(all)};
      if (part.split >= 0) continue;
      const Join join(joined_state[half], state[half], Exp2());
      joined_state[half] = join.state();
#pragma unroll
      for (int d = 0; d < 2 * Few::kPairs; ++d)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e)
          joined[d][e] = join.of(joined[d][e], out[d][e]);
    }
    if (last) break;
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!places[half].inside) continue;
    const bool whole = part.split < 0;
    const RowState of = {whole ? joined_state[half].max : state[half].max,
                         whole ? joined_state[half].sum : state[half].sum};
    const float scale = inverse_sum(of.sum);
    if (!whole && part.partial >= 0) {
      float* const partial =
          partial_row<kDim>(args, std::int64_t{part.partial} + lane / 4 + 8 * half, kv_head);
      const float rest[2] = {of.max, of.sum};
      if (thread < 32 && lane % 4 == 0) store(rest, partial + kDim);
#pragma unroll
      for (int i = 0; i < 2 * Few::kPairs; ++i) {
        const int d = 2 * (warp + i / 2 * 4) + i % 2;
        const float sums_of[2] = {out[i][2 * half], out[i][2 * half + 1]};
        if (d < S::kDimTiles) store(sums_of, partial + d * 8 + lane % 4 * 2);
      }
      continue;
    }
    Bf16* const to = out_row(args, places[half], kv_head);
    if (whole)
      put_row<Form, Few::kPairs, 4>(args, to, warp, scale, joined, half, lane);
    else
      put_row<Form, Few::kPairs, 4>(args, to, warp, scale, out, half, lane);
  }
  if (part.split >= 0) join_if_last<kDim, Form::kScaled>(args, part.tile, kv_head);
}

}  // namespace saccade::cuda
