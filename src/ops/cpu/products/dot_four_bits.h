// Codes of four bits by VDPBF16PS. Included by the translation unit compiled for AVX512-BF16 alone.
//
// What is multiplied by x is code - 8, which is a number of bf16 to the bit. A segment is what a
// group has of 128 inputs, and with the segment's own sums
//   y = sum of scale * (sum of x * (code - 8) - (zero - 8) * sum of x)
// over the segments in order, so weights are not rounded, only x is. The order is the same for few
// rows, whose codes are looked up in registers on their way from memory, and for many, which pass
// codes that were looked up once.
#pragma once

#include "ops/cpu/products/dot_tiles.h"
#include "ops/cpu/products/four_bit_scales.h"

namespace saccade::cpu::dot {

constexpr Index kSegmentPairs = 64;
constexpr Index kWordPairs = 4;  // of a word of 32 bits
constexpr float kMiddle = 8;

// Pairs [begin, end) of the depth, which have one scale and zero for each output.
struct Segment {
  Index begin;
  Index end;
  Index group;

  Segment(const FourBitPanels& w, Index first, Index last) : begin(first) {
    group = first * 2 / w.group;
    const Index of_group = (group + 1) * w.group / 2;
    const Index of_block = (first / kSegmentPairs + 1) * kSegmentPairs;
    end = of_group < of_block ? of_group : of_block;
    if (end > last) end = last;
  }
};

// Code - 8 for both halves of each lane, twice, as VPERMW looks at five bits of which the highest
// is the next code's.
class CodeValues {
 public:
  CodeValues() {
    const F values = V::iota() - V::set(kMiddle);
    const auto half = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values));
    table_ = _mm512_broadcast_i64x4(half);
  }
  // Pair `i` of each lane's word.
  __m512bh pair(__m512i words, int i) const {
    const __m512i codes = _mm512_srli_epi16(words, static_cast<unsigned>(4 * i));
    return reinterpret_cast<__m512bh>(_mm512_permutexvar_epi16(codes, table_));
  }

 private:
  __m512i table_;
};

// The sum of a row's x over tiles [begin, end) of its depth.
inline float sum_of_x(const std::byte* x, Index tile_bytes, Index begin, Index end) {
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
  F sum = V::zero();
  for (Index tile = begin; tile < end; ++tile) {
    const auto row = reinterpret_cast<__m512bh>(_mm512_loadu_si512(x + tile * tile_bytes));
    sum = _mm512_dpbf16_ps(sum, row, ones);
  }
  return V::sum(sum);
}

// c [R, N panels] (+)= what the sums of a segment stand for. x_sums: [R], of the same inputs.
template <int R, int N>
inline void add_segment(const F (&sum)[R][N], const FourBitPanels& w, Index panel, Index group,
                        const float* x_sums, bool fresh, float* c, Index c_stride) {
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    const std::byte* const grid = w.weights + (panel + n) * w.panel_stride;
    const F scale = load_scales<V>(w, grid, group);
    const auto* const zeros = reinterpret_cast<const __m128i*>(grid + w.zeros + group * 16);
    const F zero = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(zeros)));
    const F lift = V::set(kMiddle) - zero;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* const to = c + r * c_stride + n * 16;
      const F value = V::fma(lift, V::set(x_sums[r]), sum[r][n]);
      V::store(to, V::fma(value, scale, fresh ? V::zero() : V::load(to)));
    }
  }
}

// R rows of x, as round_pairs() leaves them, by N panels.
template <int R, int N>
inline void multiply_codes_block(const FourBitTileArgs& args, Index row, Index panel) {
  constexpr Index kAhead = 2048;  // bytes
  const CodeValues values;
  const Index tile_bytes = args.rows * kRowBytes;
  const std::byte* const x = args.x + row * kRowBytes;
  const std::byte* codes = args.w.weights + panel * args.w.panel_stride + args.w.codes;
  float* const c = args.c + row * args.c_stride + panel * 16;
  const Index last = args.depth_tiles * kTilePairs;
  for (Index pair = 0; pair < last;) {
    const Segment segment(args.w, pair, last);
    F sum[R][N];
    clear<Bf16Pairs, R, N>(sum);
    for (; pair < segment.end; pair += kWordPairs, codes += kRowBytes) {
      __m512i words[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const std::byte* const p = codes + n * args.w.panel_stride;
        __builtin_prefetch(p + kAhead);
        words[n] = _mm512_loadu_si512(p);
      }
      const std::byte* const at =
          x + pair / kTilePairs * tile_bytes + pair % kTilePairs * kPairBytes;
#pragma GCC unroll 4
      for (int i = 0; i < kWordPairs; ++i) {
        __m512bh weight[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) weight[n] = values.pair(words[n], i);
        add_pair<Bf16Pairs, R, N>(sum, at + i * kPairBytes, weight);
      }
    }
    float x_sums[R];
    for (int r = 0; r < R; ++r)
      x_sums[r] = sum_of_x(x + r * kRowBytes, tile_bytes, segment.begin / kTilePairs,
                           segment.end / kTilePairs);
    add_segment<R, N>(sum, args.w, panel, segment.group, x_sums, segment.begin == 0, c,
                      args.c_stride);
  }
}

inline void multiply_four_bits(const FourBitTileArgs& args) {
  const auto block = [&]<int R, int N>(Index row, Index panel) {
    multiply_codes_block<R, N>(args, row, panel);
  };
  Index panel = 0;
  if (args.rows <= 2) {
    for (; panel + 4 <= args.w.panels; panel += 4) with_rows<4, 2>(args.rows, 0, panel, block);
  }
  for (; panel + 2 <= args.w.panels; panel += 2) each_block<2>(args.rows, 0, panel, block);
  if (panel < args.w.panels) each_block<1>(args.rows, 0, panel, block);
}

inline void unpack_four_bits(const FourBitTileArgs& args) {
  const CodeValues values;
  std::byte* to = args.tiles;
  for (Index panel = 0; panel < args.w.panels; ++panel) {
    const std::byte* codes = args.w.weights + panel * args.w.panel_stride + args.w.codes +
                             args.begin * kTilePairs / kWordPairs * kRowBytes;
    for (Index word = 0; word < args.depth_tiles * kTilePairs / kWordPairs;
         ++word, codes += kRowBytes) {
      const __m512i words = _mm512_loadu_si512(codes);
#pragma GCC unroll 4
      for (int i = 0; i < kWordPairs; ++i, to += kRowBytes)
        _mm512_storeu_si512(to, reinterpret_cast<__m512i>(values.pair(words, i)));
    }
  }
}

// TileKernels::multiply of what unpack_four_bits() left. A row tile at a time, so that the sums of
// its x are made once: all panels of a step lie in the second-level cache.
inline void multiply_unpacked(const TileArgs& args) {
  const FourBitPanels& w = *args.grid;
  const Index first = args.begin * kTilePairs;
  const Index last = first + args.depth_tiles * kTilePairs;
  float x_sums[kMaxUnpackedTiles][kTileRows];
  for (Index row = 0; row < args.rows; row += kTileRows) {
    const Index rows = args.rows - row < kTileRows ? args.rows - row : kTileRows;
    Index segments = 0;
    for (Index pair = first; pair < last; ++segments) {
      const Segment segment(w, pair, last);
      for (Index r = 0; r < rows; ++r)
        x_sums[segments][r] =
            sum_of_x(x_tile(args, row + r, 0), kTileBytes, (segment.begin - first) / kTilePairs,
                     (segment.end - first) / kTilePairs);
      pair = segment.end;
    }
    each_panels(0, args.panels, [&]<int N>(Index panel) {
      each_block<N>(rows, row, panel, [&]<int R, int M>(Index at, Index of) {
        Index i = 0;
        for (Index pair = first; pair < last; ++i) {
          const Segment segment(w, pair, last);
          F sum[R][M];
          clear<Bf16Pairs, R, M>(sum);
          accumulate<Bf16Pairs, R, M, false>(sum, args, at, of,
                                             {segment.begin - first, segment.end - first});
          add_segment<R, M>(sum, w, of, segment.group, x_sums[i] + (at - row),
                            !args.accumulate && segment.begin == first,
                            args.c + at * args.c_stride + of * 16, args.c_stride);
          pair = segment.end;
        }
      });
    });
  }
}

// Tiles of up to 16 rows: [tile][rows][32].
inline void round_pairs(const float* x, Index x_stride, Index rows, Index cols, Index begin,
                        Index end, Bf16* out) {
  for (Index tile = begin; tile < end; ++tile) {
    for (Index row = 0; row < rows; ++row)
      _mm512_storeu_si512(out + (tile * rows + row) * bf16::kTileDepth,
                          bf16::round_32(x + row * x_stride + tile * bf16::kTileDepth,
                                         cols - tile * bf16::kTileDepth));
  }
}

}  // namespace saccade::cpu::dot
