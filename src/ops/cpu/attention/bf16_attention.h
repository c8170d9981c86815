// Attention of a tile of queries to a chunk of tokens on tiles of bf16: see ChunkArgs. Included by
// the translation units compiled for AVX512-BF16 alone, each of which says how tiles are
// multiplied:
//   struct Unit {
//     struct Session;                     // lives while a chunk is at work
//     static constexpr Index kGroupRows;  // queries at a time from scores to sums
//     // TileKernels::multiply; of the depth, what lies past `depth` is zeros.
//     static void multiply(const TileArgs&, Index depth);
//   };
#pragma once

#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/products/bf16_tiles.h"

namespace saccade::cpu::bf16 {

// Queries and weights are x; keys and values are panels.

constexpr Index kChunk = 256;  // sums are read from and written to memory once for eight tiles deep
// Rows of scores lie 17 lines apart: at 16, a tile's rows would meet in four sets of the
// first-level cache.
constexpr Index kScoreStride = kChunk + 16;

inline void pack_query(const float* q, float scale, Index row, Index head_dim, void* queries) {
  const Index depth_tiles = (head_dim + kTileDepth - 1) / kTileDepth;
  Bf16* out = static_cast<Bf16*>(queries) +
              (row / kTileRows * depth_tiles * kTileElements + row % kTileRows * kTileDepth);
  const F s = _mm512_set1_ps(scale);
  for (Index dim = 0; dim < head_dim; dim += kTileDepth, out += kTileElements) {
    const F low = _mm512_maskz_loadu_ps(lanes_below(head_dim - dim), q + dim);
    const F high = _mm512_maskz_loadu_ps(lanes_below(head_dim - dim - 16), q + dim + 16);
    _mm512_storeu_si512(out, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high * s, low * s)));
  }
}

inline __m512i load_32(const float* p, Index count) { return round_32(p, count); }
inline __m512i load_32(const Bf16* p, Index count) {
  return _mm512_maskz_loadu_epi16(
      static_cast<__mmask32>(count >= 32 ? 0xffffffff : (1U << count) - 1), p);
}
// 16 elements as the low halves of 32-bit lanes.
inline __m512i load_16(const float* p, Index count) {
  const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes_below(count), p));
  return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(rounded));
}
inline __m512i load_16(const Bf16* p, Index count) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes_below(count), p));
}

// keys: [tokens / 16][depth tiles][16 pairs of dims][16 tokens][2]: a transpose of 32-bit pairs.
template <typename T>
void pack_keys(const ChunkArgs& args) {
  auto* out = static_cast<Bf16*>(args.keys);
  for (Index token = 0; token < args.tokens; token += 16) {
    const void* const* rows = args.key_rows + token;
    for (Index dim = 0; dim < args.head_dim; dim += kTileDepth, out += kTileElements) {
      F block[16];
#pragma GCC unroll 16
      for (Index i = 0; i < 16; ++i)
        block[i] =
            _mm512_castsi512_ps(load_32(static_cast<const T*>(rows[i]) + dim, args.head_dim - dim));
      V::transpose(block);
#pragma GCC unroll 16
      for (Index i = 0; i < 16; ++i) _mm512_storeu_ps(out + i * kTileDepth, block[i]);
    }
  }
}

// values: [dims / 16][kChunk / 32][16 pairs of tokens][16 dims][2]
template <typename T>
void pack_values(const ChunkArgs& args) {
  const Index padded = (args.tokens + kTileDepth - 1) / kTileDepth * kTileDepth;
  for (Index token = 0; token < padded; token += 2) {
    const auto* a = static_cast<const T*>(args.value_rows[token]);
    const auto* b = static_cast<const T*>(args.value_rows[token + 1]);
    Bf16* out = static_cast<Bf16*>(args.values) + token * 16;
    for (Index dim = 0; dim < args.head_dim; dim += 16, out += kChunk * 16) {
      const __m512i low = load_16(a + dim, args.head_dim - dim);
      const __m512i high = load_16(b + dim, args.head_dim - dim);
      _mm512_storeu_si512(out, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// 2^x for x <= 0 as a cubic of x - floor(x); its error of 1e-4 is a twentieth of the rounding to
// bf16 that follows. The instruction that scales takes the floor by itself. Below -126 the result
// stays where it is, as in Math::exp.
inline F exp2_coarse(F x) {
  constexpr float kExp2[] = {9.999251962e-01f, 6.958335042e-01f, 2.260672450e-01f,
                             7.802446187e-02f};
  x = V::max(V::set(-126.0f), x);  // keeps NaN
  const F r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  F p = V::fma(r, V::set(kExp2[3]), V::set(kExp2[2]));
  p = V::fma(p, r, V::set(kExp2[1]));
  p = V::fma(p, r, V::set(kExp2[0]));
  return _mm512_scalef_ps(p, x);
}

// Which of tokens [first, first + 16) are in [begin, end).
inline __mmask16 seen(Index first, Index begin, Index end) {
  return lanes_below(end - first) & static_cast<__mmask16>(~lanes_below(begin - first));
}

// As Attention<V>::softmax, for rows [first, first + rows): scores [rows, kScoreStride] become
// weights in tiles [rows / 16][kChunk / 32][16][32].
inline void softmax(const ChunkArgs& args, Index first_row, Index rows) {
  const Index padded = (args.tokens + kTileDepth - 1) / kTileDepth * kTileDepth;
  constexpr float kLog2E = 1.442695041f;
  for (Index i = 0; i < rows; ++i) {
    const Index row = first_row + i;
    float* scores = args.scores + i * kScoreStride;
    Bf16* weights =
        static_cast<Bf16*>(args.weights) +
        (i / kTileRows * (kChunk / kTileDepth) * kTileElements + i % kTileRows * kTileDepth);
    const Index begin = args.begin[row] > 0 ? args.begin[row] : 0;
    const Index end = args.end[row] < args.tokens ? args.end[row] : args.tokens;
    if (begin >= end) {
      for (Index token = 0; token < padded; token += kTileDepth)
        _mm512_storeu_si512(weights + token * kTileRows, _mm512_setzero_si512());
      continue;
    }
    constexpr float kInfinity = __builtin_inff();
    F max[2] = {V::set(-kInfinity), V::set(-kInfinity)};
    const bool plain = begin == 0 && end == padded && args.softcap <= 0;
    const bool coded = args.key_scales != nullptr;
    for (Index token = 0; token < padded; token += 32) {
#pragma GCC unroll 2
      for (Index half = 0; half < 2; ++half) {
        const Index first = token + half * 16;
        F score = V::load(scores + first);
        if (coded) score = score * V::load(args.key_scales + first);
        if (!plain) {
          if (args.softcap > 0) score = cpu::Attention<V>::capped(score, args.softcap);
          score = V::select(seen(first, begin, end), score, V::set(-kInfinity));
        }
        if (coded || !plain) V::store(scores + first, score);
        max[half] = V::max(score, max[half]);
      }
    }
    const float old_max = args.max[row];
    const float chunk_max = V::largest(V::max(max[0], max[1]));
    const float new_max = chunk_max > old_max ? chunk_max : old_max;
    const F shift = V::set(-new_max * kLog2E);
    F sum[2] = {V::zero(), V::zero()};
    for (Index token = 0; token < padded; token += 32) {
      F low = exp2_coarse(V::fma(V::load(scores + token), V::set(kLog2E), shift));
      F high = exp2_coarse(V::fma(V::load(scores + token + 16), V::set(kLog2E), shift));
      if (!plain) {
        low = V::select(seen(token, begin, end), low, V::zero());
        high = V::select(seen(token + 16, begin, end), high, V::zero());
      }
      sum[0] = sum[0] + low;
      sum[1] = sum[1] + high;
      if (coded) {
        low = low * V::load(args.value_scales + token);
        high = high * V::load(args.value_scales + token + 16);
        if (!plain) {
          low = V::select(seen(token, begin, end), low, V::zero());
          high = V::select(seen(token + 16, begin, end), high, V::zero());
        }
      }
      _mm512_storeu_si512(weights + token * kTileRows,
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    }
    if (new_max > old_max) {
      const float shrink = V::first(Math<V>::exp(V::set(old_max - new_max)));
      args.sum[row] *= shrink;
      float* out = args.out + row * args.cols;
      for (Index col = 0; col < args.cols; col += 16)
        V::store(out + col, V::load(out + col) * V::set(shrink));
      args.max[row] = new_max;
    }
    args.sum[row] += V::sum(sum[0] + sum[1]);
  }
}

template <typename T>
void pack_chunk_of(const ChunkArgs& args) {
  pack_keys<T>(args);
  pack_values<T>(args);
}

inline void pack_chunk(const ChunkArgs& args) {
  if (args.type == DType::kBf16) return pack_chunk_of<Bf16>(args);
  pack_chunk_of<float>(args);
}

// The sums that a group of rows goes on from come from the second-level cache: 64 bytes are asked
// for a line.
inline void ask_for_sums(const float* out, Index floats) {
  for (Index i = 0; i < floats; i += 16) __builtin_prefetch(out + i);
}

// What a chunk that is packed asks for of the next one, which lies behind it, while its own rows
// pass: all chunks of a head may be more than the second-level cache holds.
class NextChunk {
 public:
  NextChunk(const ChunkArgs& args, Index group_rows) {
    if (!args.packed) return;
    const auto* const keys = static_cast<const std::byte*>(args.keys);
    const Index key_bytes = static_cast<const std::byte*>(args.values) - keys;
    const Index bytes = key_bytes + kChunk * args.cols * static_cast<Index>(sizeof(Bf16));
    at_ = keys + bytes;
    const Index groups = (args.rows + group_rows - 1) / group_rows;
    lines_ = (bytes / 64 + groups - 1) / groups;
  }
  void ask() {
    for (Index i = 0; i < lines_; ++i, at_ += 64) _mm_prefetch(at_, _MM_HINT_T1);
  }

 private:
  const std::byte* at_ = nullptr;
  Index lines_ = 0;  // a group of rows
};

// A few row tiles at a time from scores to sums, so that their scores stay in the first-level
// cache.
template <typename Unit>
struct Attention {
  static constexpr Index kGroupRows = Unit::kGroupRows;

  template <typename T>
  static void attend_chunk_of(const ChunkArgs& args) {
    if (!args.packed) pack_chunk_of<T>(args);
    [[maybe_unused]] const typename Unit::Session session;
    const Index depth_tiles = (args.head_dim + kTileDepth - 1) / kTileDepth;
    TileArgs score;
    score.row_tile_stride = depth_tiles * kTileBytes;
    score.weights = static_cast<const std::byte*>(args.keys);
    score.panel_stride = depth_tiles * kTileBytes;
    score.panels = (args.tokens + 15) / 16;
    score.depth_tiles = depth_tiles;
    score.c = args.scores;
    score.c_stride = kScoreStride;
    TileArgs mix;
    mix.x = static_cast<const std::byte*>(args.weights);
    mix.row_tile_stride = kChunk / kTileDepth * kTileBytes;
    mix.weights = static_cast<const std::byte*>(args.values);
    mix.panel_stride = kChunk / kTileDepth * kTileBytes;
    mix.panels = args.cols / 16;
    mix.depth_tiles = (args.tokens + kTileDepth - 1) / kTileDepth;
    mix.c_stride = args.cols;
    mix.accumulate = true;
    NextChunk next(args, kGroupRows);
    for (Index row = 0; row < args.rows; row += kGroupRows) {
      const Index rows = args.rows - row < kGroupRows ? args.rows - row : kGroupRows;
      score.x =
          static_cast<const std::byte*>(args.queries) + row / kTileRows * score.row_tile_stride;
      score.rows = mix.rows = rows;
      mix.c = args.out + row * args.cols;
      next.ask();
      ask_for_sums(mix.c, rows * args.cols);
      Unit::multiply(score, args.head_dim);
      softmax(args, row, rows);
      Unit::multiply(mix, args.tokens);
    }
  }

  static void attend_chunk(const ChunkArgs& args) {
    if (args.type == DType::kBf16) return attend_chunk_of<Bf16>(args);
    attend_chunk_of<float>(args);
  }

  static constexpr AttentionKernels table() {
    AttentionKernels table;
    table.chunk_tokens = kChunk;
    table.score_stride = kScoreStride;
    table.row_unit = kTileRows;
    table.group_rows = kGroupRows;
    table.depth_unit = kTileDepth;
    table.cols_unit = 16;
    table.element_bytes = 2;
    table.pack_query = pack_query;
    table.pack_chunk = pack_chunk;
    table.attend_chunk = attend_chunk;
    return table;
  }
};

}  // namespace saccade::cpu::bf16
