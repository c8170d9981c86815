// Kernels for AMX tiles of bf16, compiled with AMX, AVX512-BF16 and AVX-512.
//
// TDPBF16PS multiplies 16 x 32 by 32 x 16 and adds to 16 x 16 of f32, some fifteen times the rate
// of f32 multiply-adds. Products are exact, sums are f32 in order of depth, and a row of the result
// depends on that row of x alone: a row is the same whether 1 or 16 of a tile's rows are used.
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/vec_avx512.h"

namespace saccade::cpu {
namespace {

using F = __m512;
using V = VecAvx512;

constexpr Index kTileRows = 16;
constexpr Index kTileDepth = 32;
constexpr Index kTileElements = kTileRows * kTileDepth;  // of bf16: 1 KiB
constexpr int kRowBytes = 64;

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles are a thread's state: set up for one loop, and released so that the system need not save
// them.
class Tiles {
 public:
  Tiles() {
    static constexpr TileConfig kConfig;
    _tile_loadconfig(&kConfig);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// Two row tiles by two panels: tiles 0 to 3 are sums, 4 and 5 x, 6 and 7 weights. Each tile that is
// read is used twice.
inline void multiply_2x2(const TileArgs& args, const Bf16* x, const Bf16* weights, float* c) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  float* const c_low = c + kTileRows * args.c_stride;
  if (args.accumulate) {
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + 16, stride);
    _tile_loadd(2, c_low, stride);
    _tile_loadd(3, c_low + 16, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const Bf16* const x_low = x + args.row_tile_stride;
  const Bf16* const weights_right = weights + args.panel_stride;
  for (Index k = 0; k < args.depth_tiles * kTileElements; k += kTileElements) {
    _tile_loadd(6, weights + k, kRowBytes);
    _tile_loadd(4, x + k, kRowBytes);
    _tile_loadd(7, weights_right + k, kRowBytes);
    _tile_loadd(5, x_low + k, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  _tile_stored(2, c_low, stride);
  _tile_stored(3, c_low + 16, stride);
}

// Two row tiles by one panel.
inline void multiply_2x1(const TileArgs& args, const Bf16* x, const Bf16* weights, float* c) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  float* const c_low = c + kTileRows * args.c_stride;
  if (args.accumulate) {
    _tile_loadd(0, c, stride);
    _tile_loadd(2, c_low, stride);
  } else {
    _tile_zero(0);
    _tile_zero(2);
  }
  const Bf16* const x_low = x + args.row_tile_stride;
  for (Index k = 0; k < args.depth_tiles * kTileElements; k += kTileElements) {
    _tile_loadd(6, weights + k, kRowBytes);
    _tile_loadd(4, x + k, kRowBytes);
    _tile_loadd(5, x_low + k, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
  }
  _tile_stored(0, c, stride);
  _tile_stored(2, c_low, stride);
}

// One row tile by one panel, or by four whose weights come from memory.
inline void multiply_1x1(const TileArgs& args, const Bf16* x, const Bf16* weights, float* c) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  if (args.accumulate)
    _tile_loadd(0, c, stride);
  else
    _tile_zero(0);
  for (Index k = 0; k < args.depth_tiles * kTileElements; k += kTileElements) {
    _tile_loadd(6, weights + k, kRowBytes);
    _tile_loadd(4, x + k, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
  }
  _tile_stored(0, c, stride);
}

// A tile load waits for its sixteen lines; ask for those of two steps ahead.
inline void prefetch_tile(const Bf16* tile) {
  const char* line = reinterpret_cast<const char*>(tile + 2 * kTileElements);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) __builtin_prefetch(line + i * 64);
}

inline void multiply_1x4(const TileArgs& args, const Bf16* x, const Bf16* weights, float* c) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  if (args.accumulate) {
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + 16, stride);
    _tile_loadd(2, c + 32, stride);
    _tile_loadd(3, c + 48, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (Index k = 0; k < args.depth_tiles * kTileElements; k += kTileElements) {
    const Bf16* w = weights + k;
    _tile_loadd(4, x + k, kRowBytes);
    prefetch_tile(w);
    _tile_loadd(5, w, kRowBytes);
    _tile_dpbf16ps(0, 4, 5);
    prefetch_tile(w + args.panel_stride);
    _tile_loadd(6, w + args.panel_stride, kRowBytes);
    _tile_dpbf16ps(1, 4, 6);
    prefetch_tile(w + 2 * args.panel_stride);
    _tile_loadd(7, w + 2 * args.panel_stride, kRowBytes);
    _tile_dpbf16ps(2, 4, 7);
    prefetch_tile(w + 3 * args.panel_stride);
    _tile_loadd(5, w + 3 * args.panel_stride, kRowBytes);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  _tile_stored(2, c + 32, stride);
  _tile_stored(3, c + 48, stride);
}

// Panels outside, rows inside: a pair of panels stays in the first-level cache while rows pass.
void multiply(const TileArgs& args) {
  const Tiles tiles;
  Index panel = 0;
  if (args.row_tiles == 1) {
    for (; panel + 4 <= args.panels; panel += 4)
      multiply_1x4(args, args.x, args.weights + panel * args.panel_stride, args.c + panel * 16);
  }
  while (panel < args.panels) {
    const bool two_panels = panel + 2 <= args.panels;
    const Bf16* const weights = args.weights + panel * args.panel_stride;
    for (Index row = 0; row < args.row_tiles; row += 2) {
      const Bf16* const x = args.x + row * args.row_tile_stride;
      float* const c = args.c + row * kTileRows * args.c_stride + panel * 16;
      if (row + 2 <= args.row_tiles) {
        if (two_panels)
          multiply_2x2(args, x, weights, c);
        else
          multiply_2x1(args, x, weights, c);
      } else {
        multiply_1x1(args, x, weights, c);
        if (two_panels) multiply_1x1(args, x, weights + args.panel_stride, c + 16);
      }
    }
    panel += two_panels ? 2 : 1;
  }
}

inline __mmask16 lanes_below(Index count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1U << count) - 1);
}

// 32 floats, of which `count` are there, to bf16; the rest become zeros.
inline __m512i round_32(const float* x, Index count) {
  const F low = _mm512_maskz_loadu_ps(lanes_below(count), x);
  const F high = _mm512_maskz_loadu_ps(lanes_below(count - 16), x + 16);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

void round_rows(const float* x, Index x_stride, Index rows, Index cols, Bf16* out) {
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < cols; col += kTileDepth)
      _mm512_storeu_si512(out + col / kTileDepth * kTileElements + row * kTileDepth,
                          round_32(x + row * x_stride + col, cols - col));
  }
}

// ---- attention: queries, weights as x; keys, values as panels ----

constexpr Index kChunk = 256;  // sums are read from and written to memory once for eight tiles deep

void pack_query(const float* q, float scale, Index row, Index head_dim, void* queries) {
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
    for (Index dim = 0; dim < args.head_dim; dim += kTileDepth, out += kTileElements) {
      F block[16];
      for (Index i = 0; i < 16; ++i) {
        const bool there = token + i < args.tokens && args.key_rows[token + i] != nullptr;
        block[i] =
            there ? _mm512_castsi512_ps(load_32(
                        static_cast<const T*>(args.key_rows[token + i]) + dim, args.head_dim - dim))
                  : V::zero();
      }
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
    const bool first = token < args.tokens && args.value_rows[token] != nullptr;
    const bool second = token + 1 < args.tokens && args.value_rows[token + 1] != nullptr;
    const auto* a = first ? static_cast<const T*>(args.value_rows[token]) : nullptr;
    const auto* b = second ? static_cast<const T*>(args.value_rows[token + 1]) : nullptr;
    Bf16* out = static_cast<Bf16*>(args.values) + token * 16;
    for (Index dim = 0; dim < args.head_dim; dim += 16, out += kChunk * 16) {
      const __m512i zero = _mm512_setzero_si512();
      const __m512i low = first ? load_16(a + dim, args.head_dim - dim) : zero;
      const __m512i high = second ? load_16(b + dim, args.head_dim - dim) : zero;
      _mm512_storeu_si512(out, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// 2^x for x <= 0; the cubic's error of 8e-5 is a twentieth of the rounding to bf16 that follows.
inline F exp2_coarse(F x) {
  const F n = V::round(x);
  const F r = x - n;
  F p = V::fma(r, V::set(5.517162383e-02f), V::set(2.426111251e-01f));
  p = V::fma(p, r, V::set(6.932609677e-01f));
  p = V::fma(p, r, V::set(9.999280572e-01f));
  return V::times_power_of_two(p, n);
}

// A score that is not seen: finite, so that the arithmetic of exp2_coarse holds, and far enough
// down to become a weight of exactly 0.
constexpr float kHidden = -1e30f;

inline F visible_score(const ChunkArgs& args, const float* scores, Index first, Index begin,
                       Index end) {
  F score = V::load(scores + first);
  if (args.softcap > 0) {
    const F cap = V::set(args.softcap);
    score = cap * Math<V>::tanh(score / cap);
  }
  if (first >= begin && first + 16 <= end) return score;
  const __mmask16 seen =
      lanes_below(end - first) & static_cast<__mmask16>(~lanes_below(begin - first));
  return _mm512_mask_blend_ps(seen, V::set(kHidden), score);
}

// As Attention<V>::softmax, with weights rounded into tiles [rows / 16][kChunk / 32][16][32].
void softmax(const ChunkArgs& args) {
  const Index padded = (args.tokens + kTileDepth - 1) / kTileDepth * kTileDepth;
  constexpr float kLog2E = 1.442695041f;
  for (Index row = 0; row < args.rows; ++row) {
    float* scores = args.scores + row * kChunk;
    Bf16* weights =
        static_cast<Bf16*>(args.weights) +
        (row / kTileRows * (kChunk / kTileDepth) * kTileElements + row % kTileRows * kTileDepth);
    const Index begin = args.begin[row] > 0 ? args.begin[row] : 0;
    const Index end = args.end[row] < args.tokens ? args.end[row] : args.tokens;
    if (begin >= end) {
      for (Index token = 0; token < padded; token += kTileDepth)
        _mm512_storeu_si512(weights + token / kTileDepth * kTileElements, _mm512_setzero_si512());
      continue;
    }
    F max[2] = {V::set(kHidden), V::set(kHidden)};
    const bool plain = begin == 0 && end == padded && args.softcap <= 0;
    for (Index token = 0; token < padded; token += 32) {
      for (Index half = 0; half < 2; ++half) {
        const Index first = token + half * 16;
        F score = V::load(scores + first);
        if (!plain) {
          score = visible_score(args, scores, first, begin, end);
          V::store(scores + first, score);
        }
        max[half] = V::max(score, max[half]);
      }
    }
    const float old_max = args.max[row];
    const float chunk_max = V::largest(V::max(max[0], max[1]));
    const float new_max = chunk_max > old_max ? chunk_max : old_max;
    const F shift = V::set(-new_max * kLog2E);
    F sum[2] = {V::zero(), V::zero()};
    for (Index token = 0; token < padded; token += 32) {
      const F low = exp2_coarse(V::fma(V::load(scores + token), V::set(kLog2E), shift));
      const F high = exp2_coarse(V::fma(V::load(scores + token + 16), V::set(kLog2E), shift));
      sum[0] = sum[0] + low;
      sum[1] = sum[1] + high;
      _mm512_storeu_si512(weights + token / kTileDepth * kTileElements,
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
void attend_chunk_of(const ChunkArgs& args) {
  const Index depth_tiles = (args.head_dim + kTileDepth - 1) / kTileDepth;
  pack_keys<T>(args);
  TileArgs score;
  score.x = static_cast<const Bf16*>(args.queries);
  score.row_tiles = (args.rows + kTileRows - 1) / kTileRows;
  score.row_tile_stride = depth_tiles * kTileElements;
  score.weights = static_cast<const Bf16*>(args.keys);
  score.panel_stride = depth_tiles * kTileElements;
  score.panels = (args.tokens + 15) / 16;
  score.depth_tiles = depth_tiles;
  score.c = args.scores;
  score.c_stride = kChunk;
  multiply(score);

  softmax(args);

  pack_values<T>(args);
  TileArgs mix;
  mix.x = static_cast<const Bf16*>(args.weights);
  mix.row_tiles = score.row_tiles;
  mix.row_tile_stride = kChunk / kTileDepth * kTileElements;
  mix.weights = static_cast<const Bf16*>(args.values);
  mix.panel_stride = kChunk / kTileDepth * kTileElements;
  mix.panels = args.cols / 16;
  mix.depth_tiles = (args.tokens + kTileDepth - 1) / kTileDepth;
  mix.c = args.out;
  mix.c_stride = args.cols;
  mix.accumulate = true;
  multiply(mix);
}

void attend_chunk(const ChunkArgs& args) {
  if (args.type == DType::kBf16) return attend_chunk_of<Bf16>(args);
  attend_chunk_of<float>(args);
}

constexpr TileKernels make_table() {
  TileKernels table;
  table.round_rows = round_rows;
  table.multiply = multiply;
  table.attention.chunk_tokens = kChunk;
  table.attention.row_unit = kTileRows;
  table.attention.depth_unit = kTileDepth;
  table.attention.cols_unit = 16;
  table.attention.element_bytes = 2;
  table.attention.pack_query = pack_query;
  table.attention.attend_chunk = attend_chunk;
  return table;
}

}  // namespace

const TileKernels& amx_kernels() {
  static constexpr TileKernels kTable = make_table();
  return kTable;
}

}  // namespace saccade::cpu
