// The kernels for AMX, compiled with AMX, AVX512-BF16 and AVX-512.
#include "ops/cpu/attention/bf16_attention.h"
#include "ops/cpu/products/amx_four_bits.h"
#include "ops/cpu/products/amx_tiles.h"
#include "ops/cpu/products/super_block_tiles.h"
#include "ops/cpu/products/w4a8_tiles.h"
#include "ops/cpu/simd/bytes_avx512.h"

namespace saccade::cpu {
namespace amx {
namespace {

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
// Reading weights this way is a tenth faster than by tiles.
template <int N>
inline void multiply_row(const TileArgs& args, Index panel) {
  constexpr Index kAhead = 1024;  // elements: the hardware prefetcher stops at page ends
  const __m512i odd_half = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const float* x = args.one_row;
  const auto* weights = reinterpret_cast<const Bf16*>(args.weights + panel * args.panel_stride);
  const Index panel_elements = args.panel_stride / static_cast<Index>(sizeof(Bf16));
  float* const c = args.c + panel * 16;
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
        const Bf16* const p = weights + n * panel_elements;
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
  const auto* const x = reinterpret_cast<const Bf16*>(args.x);
  for (Index tile = 0; tile < args.depth_tiles; ++tile) {
    const Bf16* const from = x + tile * kTileElements;
    float* const to = args.one_row + tile * kTileDepth;
    V::store(to, V::load(from));
    V::store(to + 16, V::load(from + 16));
  }
  Index panel = 0;
  for (; panel + 4 <= args.panels; panel += 4) multiply_row<4>(args, panel);
  for (; panel < args.panels; ++panel) multiply_row<1>(args, panel);
}

template <Unit kUnit>
void multiply_tiles(const TileArgs& args) {
  const Tiles tiles;
  if (args.row_tiles() > 1) return multiply_panels<Stream::kX, kUnit>(args);
  Index panel = 0;
  for (; panel + 4 <= args.panels; panel += 4) multiply_1x4<kUnit>(args, panel);
  multiply_panels<Stream::kX, kUnit>(args, panel);
}

void multiply(const TileArgs& args) {
  if (args.one_row != nullptr) return multiply_one_row(args);
  multiply_tiles<Unit::kBf16>(args);
}

// As w4a8_tiles.h wants it, of tiles so many inputs deep. Tile numbers are part of the
// instruction.
template <Index kInputs>
struct CodeUnit {
  static constexpr Index kDepth = kInputs;
  using Session = ByteTiles<kInputs>;
  template <int kTile>
  static void zero() {
    if constexpr (kTile == 0) _tile_zero(0);
    if constexpr (kTile == 1) _tile_zero(1);
    if constexpr (kTile == 2) _tile_zero(2);
    if constexpr (kTile == 3) _tile_zero(3);
  }
  // Sixteen rows alike.
  template <int kTile>
  static void fill(const std::int32_t* row) {
    if constexpr (kTile == 0) _tile_loadd(0, row, 0);
    if constexpr (kTile == 1) _tile_loadd(1, row, 0);
    if constexpr (kTile == 2) _tile_loadd(2, row, 0);
    if constexpr (kTile == 3) _tile_loadd(3, row, 0);
  }
  template <int kTile>
  static void load(const std::byte* from) {
    if constexpr (kTile == 4) _tile_stream_loadd(4, from, kInputs);
    if constexpr (kTile == 5) _tile_stream_loadd(5, from, kInputs);
    if constexpr (kTile == 6) _tile_loadd(6, from, kRowBytes);
    if constexpr (kTile == 7) _tile_loadd(7, from, kRowBytes);
  }
  template <int kSum, int kX, int kWeights>
  static void multiply() {
    static_assert(kX == 4 + kSum / 2 && kWeights == 6 + kSum % 2);
    if constexpr (kSum == 0) _tile_dpbssd(0, 4, 6);
    if constexpr (kSum == 1) _tile_dpbssd(1, 4, 7);
    if constexpr (kSum == 2) _tile_dpbssd(2, 5, 6);
    if constexpr (kSum == 3) _tile_dpbssd(3, 5, 7);
  }
  template <int kTile>
  static void store(std::int32_t* to) {
    if constexpr (kTile == 0) _tile_stored(0, to, kRowBytes);
    if constexpr (kTile == 1) _tile_stored(1, to, kRowBytes);
    if constexpr (kTile == 2) _tile_stored(2, to, kRowBytes);
    if constexpr (kTile == 3) _tile_stored(3, to, kRowBytes);
  }
};

struct CodeWords : BytesAvx512 {
  static B load_codes(const std::byte* p) { return load(p); }
  static I load_sums(const std::int32_t* p) { return load(p); }
  static __m512 as_float(I a) { return _mm512_castsi512_ps(a); }
  static void store(std::byte* p, B a) { _mm512_storeu_si512(p, a); }
  static B minus(B a, B b) { return _mm512_sub_epi8(a, b); }
  // sum + (a << kShift)
  template <unsigned kShift>
  static I plus_shifted(I sum, I a) {
    return _mm512_add_epi32(sum, _mm512_slli_epi32(a, kShift));
  }
  // Of bytes whose products are bytes without a sign.
  static B times(B a, B b) {
    return _mm512_mullo_epi16(a, _mm512_and_si512(b, _mm512_set1_epi16(0xff)));
  }
  // Each of sixteen bytes, four times.
  static B four_times(const std::uint8_t* p) {
    return _mm512_mullo_epi32(widen(p), _mm512_set1_epi32(0x01010101));
  }
};

template <Index kInputs>
using CodeTiles = W4A8Tiles<V, CodeWords, CodeUnit<kInputs>>;

void multiply_w4a8(const W4A8TileArgs& args) {
  if (args.tile_inputs == 32) return CodeTiles<32>::multiply(args);
  CodeTiles<64>::multiply(args);
}

using BlockTiles = SuperBlockTiles<V, CodeWords, CodeUnit<64>>;

// As bf16_attention.h wants it.
struct AttentionUnit {
  using Session = Tiles;
  static constexpr Index kGroupRows = 2 * kTileRows;
  static void multiply(const TileArgs& args, Index) {
    multiply_panels<Stream::kWeights, Unit::kBf16>(args);
  }
};

constexpr TileKernels make_table() {
  TileKernels table;
  table.round_rows = bf16::round_rows;
  table.multiply = multiply;
  table.multiply_int8 = multiply_tiles<Unit::kInt8>;
  table.multiply_w4a8 = multiply_w4a8;
  table.multiply_super_blocks = BlockTiles::multiply;
  table.scale_code_row = CodeTiles<64>::scale_row;
  table.code_order = CodeOrder::kRows;
  table.round_pairs = round_pairs;
  table.multiply_four_bits = multiply_four_bits;
  table.unpack_four_bits = unpack_four_bits;
  table.attention = bf16::Attention<AttentionUnit>::table();
  return table;
}

}  // namespace
}  // namespace amx

const TileKernels& amx_kernels() {
  static constexpr TileKernels kTable = amx::make_table();
  return kTable;
}

}  // namespace saccade::cpu
