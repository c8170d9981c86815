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

// Which operand passes through the first-level cache once, and should not push the other out of it.
enum class Stream { kX, kWeights };

// Tile numbers are part of the instruction: macros of one line each.
#define SACCADE_LOAD_X(tile, address)               \
  do {                                              \
    if constexpr (kStream == Stream::kX)            \
      _tile_stream_loadd(tile, address, kRowBytes); \
    else                                            \
      _tile_loadd(tile, address, kRowBytes);        \
  } while (false)
#define SACCADE_LOAD_WEIGHTS(tile, address)         \
  do {                                              \
    if constexpr (kStream == Stream::kWeights)      \
      _tile_stream_loadd(tile, address, kRowBytes); \
    else                                            \
      _tile_loadd(tile, address, kRowBytes);        \
  } while (false)

// Two row tiles by two panels: tiles 0 to 3 are sums, 4 and 5 x, 6 and 7 weights. Each tile that is
// read is used twice.
template <Stream kStream>
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
    SACCADE_LOAD_X(4, x + k);
    SACCADE_LOAD_WEIGHTS(6, weights + k);
    _tile_dpbf16ps(0, 4, 6);
    SACCADE_LOAD_WEIGHTS(7, weights_right + k);
    _tile_dpbf16ps(1, 4, 7);
    SACCADE_LOAD_X(5, x_low + k);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + 16, stride);
  _tile_stored(2, c_low, stride);
  _tile_stored(3, c_low + 16, stride);
}

// Two row tiles by one panel.
template <Stream kStream>
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
    SACCADE_LOAD_X(4, x + k);
    SACCADE_LOAD_WEIGHTS(6, weights + k);
    _tile_dpbf16ps(0, 4, 6);
    SACCADE_LOAD_X(5, x_low + k);
    _tile_dpbf16ps(2, 5, 6);
  }
  _tile_stored(0, c, stride);
  _tile_stored(2, c_low, stride);
}

// One row tile by one panel.
template <Stream kStream>
inline void multiply_1x1(const TileArgs& args, const Bf16* x, const Bf16* weights, float* c) {
  const Index stride = args.c_stride * static_cast<Index>(sizeof(float));
  if (args.accumulate)
    _tile_loadd(0, c, stride);
  else
    _tile_zero(0);
  for (Index k = 0; k < args.depth_tiles * kTileElements; k += kTileElements) {
    SACCADE_LOAD_X(4, x + k);
    SACCADE_LOAD_WEIGHTS(6, weights + k);
    _tile_dpbf16ps(0, 4, 6);
  }
  _tile_stored(0, c, stride);
}

#undef SACCADE_LOAD_X
#undef SACCADE_LOAD_WEIGHTS

// A tile load waits for its sixteen lines; ask for those of two steps ahead.
inline void prefetch_tile(const Bf16* tile) {
  const char* line = reinterpret_cast<const char*>(tile + 2 * kTileElements);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) __builtin_prefetch(line + i * 64);
}

// One row tile by four panels whose weights come from memory.
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
template <Stream kStream>
void multiply_panels(const TileArgs& args, Index first_panel = 0) {
  for (Index panel = first_panel; panel < args.panels; panel += 2) {
    const bool two_panels = panel + 2 <= args.panels;
    const Bf16* const weights = args.weights + panel * args.panel_stride;
    for (Index row = 0; row < args.row_tiles; row += 2) {
      const Bf16* const x = args.x + row * args.row_tile_stride;
      float* const c = args.c + row * kTileRows * args.c_stride + panel * 16;
      if (row + 2 <= args.row_tiles) {
        if (two_panels)
          multiply_2x2<kStream>(args, x, weights, c);
        else
          multiply_2x1<kStream>(args, x, weights, c);
      } else {
        multiply_1x1<kStream>(args, x, weights, c);
        if (two_panels) multiply_1x1<kStream>(args, x, weights + args.panel_stride, c + 16);
      }
    }
  }
}

// The matrix unit takes denormal numbers for zeros, whatever the thread's settings.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_;
};

// One row by N panels with the vector unit: exactly the sums of TDPBF16PS (Intel's manual, volume
// 2: sums of the even and of the odd elements of each tile, added up, then added to the total).
// Reading weights this way is a tenth faster than by tiles. x: [32 * depth_tiles].
template <int N>
inline void multiply_row(const TileArgs& args, const float* x, const Bf16* weights, float* c) {
  constexpr Index kAhead = 1024;  // elements: the hardware prefetcher stops at page ends
  const __m512i odd_half = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  F sum[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) sum[n] = args.accumulate ? V::load(c + n * 16) : V::zero();
  for (Index tile = 0; tile < args.depth_tiles; ++tile) {
    F even[N];
    F odd[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) even[n] = odd[n] = V::zero();
#pragma GCC unroll 4
    for (Index pair = 0; pair < kTileDepth / 2; ++pair, x += 2, weights += 32) {
      const F x_even = V::set(x[0]);
      const F x_odd = V::set(x[1]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const Bf16* const p = weights + n * args.panel_stride;
        __builtin_prefetch(p + kAhead);
        const __m512i w = _mm512_loadu_si512(p);
        even[n] = V::fma(x_even, _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)), even[n]);
        odd[n] = V::fma(x_odd, _mm512_castsi512_ps(_mm512_and_si512(w, odd_half)), odd[n]);
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[n] = sum[n] + (even[n] + odd[n]);
  }
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) V::store(c + n * 16, sum[n]);
}

// Row 0 of x alone.
void multiply_one_row(const TileArgs& args) {
  const FlushDenormals flush;
  for (Index tile = 0; tile < args.depth_tiles; ++tile) {
    const Bf16* const from = args.x + tile * kTileElements;
    float* const to = args.one_row + tile * kTileDepth;
    V::store(to, V::load(from));
    V::store(to + 16, V::load(from + 16));
  }
  Index panel = 0;
  for (; panel + 4 <= args.panels; panel += 4)
    multiply_row<4>(args, args.one_row, args.weights + panel * args.panel_stride,
                    args.c + panel * 16);
  for (; panel < args.panels; ++panel)
    multiply_row<1>(args, args.one_row, args.weights + panel * args.panel_stride,
                    args.c + panel * 16);
}

void multiply(const TileArgs& args) {
  if (args.one_row != nullptr) return multiply_one_row(args);
  const Tiles tiles;
  if (args.row_tiles > 1) return multiply_panels<Stream::kX>(args);
  Index panel = 0;
  for (; panel + 4 <= args.panels; panel += 4)
    multiply_1x4(args, args.x, args.weights + panel * args.panel_stride, args.c + panel * 16);
  multiply_panels<Stream::kX>(args, panel);
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
constexpr Index kGroupRows = 2 * kTileRows;
// Rows of scores lie 17 lines apart: at 16, a tile's rows would meet in four sets of the
// first-level cache.
constexpr Index kScoreStride = kChunk + 16;

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
void softmax(const ChunkArgs& args, Index first_row, Index rows) {
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
    for (Index token = 0; token < padded; token += 32) {
#pragma GCC unroll 2
      for (Index half = 0; half < 2; ++half) {
        const Index first = token + half * 16;
        F score = V::load(scores + first);
        if (!plain) {
          if (args.softcap > 0) score = Attention<V>::capped(score, args.softcap);
          score = V::select(seen(first, begin, end), score, V::set(-kInfinity));
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
      F low = exp2_coarse(V::fma(V::load(scores + token), V::set(kLog2E), shift));
      F high = exp2_coarse(V::fma(V::load(scores + token + 16), V::set(kLog2E), shift));
      if (!plain) {
        low = V::select(seen(token, begin, end), low, V::zero());
        high = V::select(seen(token + 16, begin, end), high, V::zero());
      }
      sum[0] = sum[0] + low;
      sum[1] = sum[1] + high;
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

// Two row tiles at a time from scores to sums, so that their scores stay in the first-level cache.
template <typename T>
void attend_chunk_of(const ChunkArgs& args) {
  pack_keys<T>(args);
  pack_values<T>(args);
  const Tiles tiles;
  const Index depth_tiles = (args.head_dim + kTileDepth - 1) / kTileDepth;
  TileArgs score;
  score.row_tile_stride = depth_tiles * kTileElements;
  score.weights = static_cast<const Bf16*>(args.keys);
  score.panel_stride = depth_tiles * kTileElements;
  score.panels = (args.tokens + 15) / 16;
  score.depth_tiles = depth_tiles;
  score.c = args.scores;
  score.c_stride = kScoreStride;
  TileArgs mix;
  mix.x = static_cast<const Bf16*>(args.weights);
  mix.row_tile_stride = kChunk / kTileDepth * kTileElements;
  mix.weights = static_cast<const Bf16*>(args.values);
  mix.panel_stride = kChunk / kTileDepth * kTileElements;
  mix.panels = args.cols / 16;
  mix.depth_tiles = (args.tokens + kTileDepth - 1) / kTileDepth;
  mix.c_stride = args.cols;
  mix.accumulate = true;
  for (Index row = 0; row < args.rows; row += kGroupRows) {
    const Index rows = args.rows - row < kGroupRows ? args.rows - row : kGroupRows;
    score.x = static_cast<const Bf16*>(args.queries) + row / kTileRows * score.row_tile_stride;
    score.row_tiles = mix.row_tiles = (rows + kTileRows - 1) / kTileRows;
    mix.c = args.out + row * args.cols;
    multiply_panels<Stream::kWeights>(score);
    softmax(args, row, rows);
    multiply_panels<Stream::kWeights>(mix);
  }
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
  table.attention.score_stride = kScoreStride;
  table.attention.row_unit = kTileRows;
  table.attention.group_rows = kGroupRows;
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
