// Attention of a tile of queries to a chunk of tokens in f32, for a vector type V. See ChunkArgs.
#pragma once

#include "ops/cpu/products/panel_kernels.h"
#include "ops/cpu/row_kernels.h"

namespace saccade::cpu {

// Keys are packed as f32, but bf16 stays bf16.
template <typename T>
struct PackedKeyOf {
  using Type = float;
};
template <>
struct PackedKeyOf<Bf16> {
  using Type = Bf16;
};

template <typename V>
struct Attention {
  using F = typename V::F;
  using M = Math<V>;
  using R = Rows<V>;
  static constexpr Index kLanes = V::kLanes;
  static constexpr Index kChunk = 256;
  // Rows 17 lines apart: at 16 they would meet in a few sets of the first-level cache.
  static constexpr Index kScoreStride = kChunk + 16;
  static constexpr Index kGroupRows = 2 * V::kTileRows;
  static constexpr float kInfinity = __builtin_inff();

  template <typename T>
  using PackedKey = typename PackedKeyOf<T>::Type;

  static void pack_query(const float* q, float scale, Index row, Index head_dim, void* queries) {
    R::mix_row(q, scale, false, static_cast<float*>(queries) + row * head_dim, head_dim);
  }

  // Scores are summed over dims in order, token by token in lanes: so keys are transposed. That
  // costs a quarter of a shuffle an element, less than the sums across lanes it saves; half of that
  // for bf16, whose pairs of dims travel as one lane. out: weight panels as in PanelArgs.
  template <typename T>
  static void pack_keys(const ChunkArgs& args) {
    using Packed = PackedKey<T>;
    constexpr Index kDims = kLanes * static_cast<Index>(sizeof(float) / sizeof(Packed));
    for (Index token = 0; token < args.tokens; token += kLanes) {
      float* panel =
          reinterpret_cast<float*>(static_cast<Packed*>(args.keys) + token * args.head_dim);
      for (Index dim = 0; dim < args.head_dim; dim += kDims) {
        const Index left = (args.head_dim - dim) * kLanes / kDims;
        const int count = static_cast<int>(left < kLanes ? left : kLanes);
        F block[V::kLanes];
#pragma GCC unroll 16
        for (Index i = 0; i < kLanes; ++i)
          block[i] = load_lanes(static_cast<const T*>(args.key_rows[token + i]) + dim, count);
        V::transpose(block);
        for (Index i = 0; i < count; ++i, panel += kLanes) V::store(panel, block[i]);
      }
    }
  }
  static F load_lanes(const float* p, int count) { return R::load(p, count); }
  static F load_lanes(const F16* p, int count) { return R::load(p, count); }
  static F load_lanes(const Bf16* p, int count) {  // pairs
    return R::load(reinterpret_cast<const float*>(p), count);
  }

  // out: [panels of dims][kChunk][lanes]
  template <typename T>
  static void pack_values(const ChunkArgs& args) {
    for (Index token = 0; token < args.tokens; ++token) {
      const auto* row = static_cast<const T*>(args.value_rows[token]);
      float* out = static_cast<float*>(args.values) + token * kLanes;
      R::each(args.head_dim,
              [&](Index dim, int dims) { V::store(out + dim * kChunk, R::load(row + dim, dims)); });
    }
  }

  // For rows [first, first + rows): scores [rows, kScoreStride] become weights relative to the
  // row's largest score so far; what was summed before shrinks to the new largest. Scales of keys
  // multiply the scores, those of values the weights that are left: sums are of the weights
  // themselves.
  static void softmax(const ChunkArgs& args, Index first_row, Index rows) {
    const Index padded = (args.tokens + kLanes - 1) / kLanes * kLanes;
    for (Index i = 0; i < rows; ++i) {
      const Index row = first_row + i;
      float* scores = args.scores + i * kScoreStride;
      const Index begin = args.begin[row] > 0 ? args.begin[row] : 0;
      const Index end = args.end[row] < args.tokens ? args.end[row] : args.tokens;
      if (begin >= end) {  // sees nothing here: weights of 0, and nothing else changes
        for (Index token = 0; token < padded; token += kLanes) V::store(scores + token, V::zero());
        continue;
      }
      F max = V::set(-kInfinity);
      const bool plain = begin == 0 && end == padded && args.softcap <= 0;
      const bool coded = args.key_scales != nullptr;
      for (Index token = 0; token < padded; token += kLanes) {
        F score = V::load(scores + token);
        if (coded) score = score * V::load(args.key_scales + token);
        if (!plain) {
          if (args.softcap > 0) score = capped(score, args.softcap);
          score = V::select(seen(token, begin, end), score, V::set(-kInfinity));
        }
        if (coded || !plain) V::store(scores + token, score);
        max = V::max(score, max);
      }
      const float old_max = args.max[row];
      const float chunk_max = V::largest(max);
      const float new_max = chunk_max > old_max ? chunk_max : old_max;
      F sum = V::zero();
      for (Index token = 0; token < padded; token += kLanes) {
        F weight = M::exp(V::load(scores + token) - V::set(new_max));
        if (!plain) weight = V::select(seen(token, begin, end), weight, V::zero());
        sum = sum + weight;
        if (coded) {
          weight = weight * V::load(args.value_scales + token);
          if (!plain) weight = V::select(seen(token, begin, end), weight, V::zero());
        }
        V::store(scores + token, weight);
      }
      if (new_max > old_max) {
        const float shrink = V::first(M::exp(V::set(old_max - new_max)));
        args.sum[row] *= shrink;
        float* out = args.out + row * args.cols;
        R::mix_row(out, shrink, false, out, args.cols);
        args.max[row] = new_max;
      }
      args.sum[row] += V::sum(sum);
    }
  }

  static F capped(F score, float softcap) {
    const F cap = V::set(softcap);
    return cap * M::tanh(score / cap);
  }
  // Which of tokens [first, first + lanes) are in [begin, end).
  static typename V::Mask seen(Index first, Index begin, Index end) {
    const F token = V::iota() + V::set(static_cast<float>(first));
    return V::both(V::less(V::set(static_cast<float>(begin) - 0.5f), token),
                   V::less(token, V::set(static_cast<float>(end))));
  }

  // Few queries use each value so little that packing it would cost more: value rows are read where
  // they are. Sums run over tokens in order, as in Panels.
  template <typename T, int kRows, int N>
  static void mix_tile(const ChunkArgs& args, Index dim) {
    using P = Panels<V>;
    const Index left = args.head_dim - dim - (N - 1) * kLanes;
    const int last = static_cast<int>(left < kLanes ? left : kLanes);
    F sum[kRows][N];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = V::zero();
    }
    typename P::template RowPointers<kRows> weights(args.scores, kScoreStride);
    for (Index token = 0; token < args.tokens; ++token) {
      const T* row = static_cast<const T*>(args.value_rows[token]) + dim;
      F value[N];
#pragma GCC unroll 4
      for (int n = 0; n < N - 1; ++n) value[n] = V::load(row + n * kLanes);
      value[N - 1] = R::load(row + (N - 1) * kLanes, last);
      P::template step<kRows, N>(sum, value, weights, 0);
      weights.advance(1);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* out = args.out + r * args.cols + dim;
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) V::store(out + n * kLanes, V::load(out + n * kLanes) + sum[r][n]);
    }
  }
  // For 1 <= args.rows <= kRows.
  template <typename T, int kRows = V::kTileRows>
  static void mix_few(const ChunkArgs& args) {
    if constexpr (kRows > 1) {
      if (args.rows < kRows) return mix_few<T, kRows - 1>(args);
    }
    Index dim = 0;
    for (; dim + 2 * kLanes <= args.cols; dim += 2 * kLanes) mix_tile<T, kRows, 2>(args, dim);
    if (dim < args.cols) mix_tile<T, kRows, 1>(args, dim);
  }

  // A few row tiles at a time from scores to sums, so that their scores stay in the first-level
  // cache.
  template <typename T>
  static void attend_chunk_of(const ChunkArgs& args) {
    using Packed = PackedKey<T>;
    const bool few = !args.packed && args.rows <= V::kTileRows;
    if (!args.packed) pack_keys<T>(args);
    if (!args.packed && !few) pack_values<T>(args);
    PanelArgs score;
    score.x_stride = args.head_dim;
    score.weights = args.keys;
    score.panel_stride = args.head_dim * kLanes * static_cast<Index>(sizeof(Packed));
    score.panels = (args.tokens + kLanes - 1) / kLanes;
    score.depth = args.head_dim;
    score.c = args.scores;
    score.c_stride = kScoreStride;
    PanelArgs mix;
    mix.x = args.scores;
    mix.x_stride = kScoreStride;
    mix.weights = args.values;
    mix.panel_stride = kChunk * kLanes * static_cast<Index>(sizeof(float));
    mix.panels = args.cols / kLanes;
    mix.depth = args.tokens;
    mix.c_stride = args.cols;
    mix.accumulate = true;
    for (Index row = 0; row < args.rows; row += kGroupRows) {
      const Index rows = args.rows - row < kGroupRows ? args.rows - row : kGroupRows;
      score.x = static_cast<const float*>(args.queries) + row * args.head_dim;
      score.rows = mix.rows = rows;
      mix.c = args.out + row * args.cols;
      Panels<V>::template run<Packed>(score);
      softmax(args, row, rows);
      if (few)
        mix_few<T>(args);
      else
        Panels<V>::template run<float>(mix);
    }
  }
  static void attend_chunk(const ChunkArgs& args) {
    if (args.type == DType::kBf16) return attend_chunk_of<Bf16>(args);
    if (args.type == DType::kF16) return attend_chunk_of<F16>(args);
    attend_chunk_of<float>(args);
  }

  template <typename T>
  static void pack_chunk_of(const ChunkArgs& args) {
    pack_keys<T>(args);
    pack_values<T>(args);
  }
  static void pack_chunk(const ChunkArgs& args) {
    if (args.type == DType::kBf16) return pack_chunk_of<Bf16>(args);
    if (args.type == DType::kF16) return pack_chunk_of<F16>(args);
    pack_chunk_of<float>(args);
  }

  static void merge(const MergeArgs& args) {
    for (Index row = 0; row < args.rows; ++row) {
      const float other_max = args.other_max[row];
      if (other_max == -kInfinity) continue;
      const float max = other_max > args.max[row] ? other_max : args.max[row];
      const float mine = V::first(M::exp(V::set(args.max[row] - max)));
      const float theirs = V::first(M::exp(V::set(other_max - max)));
      float* out = args.out + row * args.cols;
      const float* other = args.other_out + row * args.cols;
      R::each(args.cols, [&](Index col, int count) {
        const F sum = V::fma(R::load(other + col, count), V::set(theirs),
                             R::load(out + col, count) * V::set(mine));
        R::store(out + col, sum, count);
      });
      args.sum[row] = args.sum[row] * mine + args.other_sum[row] * theirs;
      args.max[row] = max;
    }
  }
};

}  // namespace saccade::cpu
