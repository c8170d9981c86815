// The inner loops of the CPU ops, one table for each instruction set.
//
// Files of this folder are of two sorts. One file an op (gemm.cc, norm.cc, ...) checks, plans and
// spreads work over threads; it is compiled once. The loops themselves are templates over a vector
// type (vec_*.h) in panel_kernels.h, row_kernels.h and attention_kernels.h; kernels_<isa>.cc
// compiles them with that instruction set's flags and exports them as a Kernels table.
//
// A header that kernels_<isa>.cc includes must not include the standard library's templates or
// anything that does: the linker keeps one copy of an inline function, and if that were the copy
// compiled for AVX-512, a machine without it would crash far from here. Hence plain pointers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/activation.h"
#include "tensor/dtype.h"

namespace saccade::cpu {

using Index = std::ptrdiff_t;

// c [rows, panels * lanes] (+)= x [rows, depth] times `panels` weight panels. A panel holds `lanes`
// columns of the right-hand side: for f32 [depth][lanes], for bf16 [ceil(depth / 2)][lanes][2].
// Each element of c gains one sum, accumulated over depth in order whatever `rows` is.
struct PanelArgs {
  const float* x = nullptr;
  Index x_stride = 0;
  Index rows = 0;
  const void* weights = nullptr;
  Index panel_stride = 0;  // bytes
  Index panels = 0;
  Index depth = 0;
  float* c = nullptr;
  Index c_stride = 0;
  bool accumulate = false;  // false: c = sum; true: c = c + sum
};

// y = act(c + bias) + residual, over one row.
struct FinishArgs {
  const float* c = nullptr;
  const float* bias = nullptr;      // or null
  const float* residual = nullptr;  // or null
  Activation activation = Activation::kNone;
  Index cols = 0;
  float* y = nullptr;
};

struct NormRowArgs {
  float* x = nullptr;
  const float* add = nullptr;  // or null
  const float* weight = nullptr;
  const float* bias = nullptr;  // or null
  float epsilon = 0;
  float weight_offset = 0;
  bool subtract_mean = false;
  Index cols = 0;
  float* out = nullptr;
};

// Part of a row's statistics: over some of its columns.
struct PartialStats {
  Index argmax = 0;
  float max = 0;
  float sum_exp = 0;  // of logit - max, or of logit where max is -infinity
};

constexpr Index kTokenUnit = 32;

// One chunk of tokens against a tile of queries: scores, softmax as it goes, and the weighted sum
// of values added to what earlier chunks gave.
struct ChunkArgs {
  Index rows = 0;
  Index head_dim = 0;
  const void* queries = nullptr;  // as pack_query left them

  // Keys and values have been packed already: nothing below says where they came from.
  bool packed = false;
  // Token t's key and value, or a row of zeros where none of the queries sees it; and rows of zeros
  // from `tokens` up to a multiple of kTokenUnit.
  const void* const* key_rows = nullptr;
  const void* const* value_rows = nullptr;
  Index tokens = 0;          // 1 .. chunk_tokens
  DType type = DType::kF32;  // of keys and values
  // [chunk_tokens] what token t's key, or value, is multiplied by, for keys and values that are
  // codes; anything where no query sees the token. Both, or neither: null.
  const float* key_scales = nullptr;
  const float* value_scales = nullptr;

  const Index* begin = nullptr;  // [rows] row r sees tokens [begin[r], end[r]) of the chunk;
  const Index* end = nullptr;    // [rows] the range may be empty, negative or past the chunk
  float softcap = 0;             // 0 for none

  float* max = nullptr;  // [rows] largest score so far, -infinity at first
  float* sum = nullptr;  // [rows] of exp(score - max)
  float* out = nullptr;  // [rows, cols] of exp(score - max) * value
  Index cols = 0;        // head_dim rounded up to cols_unit

  void* keys = nullptr;     // packed: [chunk_tokens, head_dim rounded up to depth_unit] elements
  void* values = nullptr;   // packed: [chunk_tokens, cols] elements
  float* scores = nullptr;  // work: [group_rows, score_stride]
  void* weights = nullptr;  // work: as scores, but elements; unused where elements are f32
};

struct AttentionKernels {
  Index chunk_tokens = 0;  // chunks begin at positions that are multiples of this
  Index score_stride = 0;
  Index group_rows = 0;  // queries at work at a time
  Index row_unit = 1;    // what memory is rounded up to
  Index depth_unit = 1;
  Index cols_unit = 1;
  Index element_bytes = 4;  // of queries, keys, values and weights as they are multiplied
  // Writes query `row` of a tile: scale * q.
  void (*pack_query)(const float* q, float scale, Index row, Index head_dim,
                     void* queries) = nullptr;
  // Keys and values of a chunk, for attend_chunk() of any queries. It packs them itself unless they
  // are.
  void (*pack_chunk)(const ChunkArgs&) = nullptr;
  void (*attend_chunk)(const ChunkArgs&) = nullptr;
};

// Joins what two ranges of tokens gave for the same queries: the result replaces a's.
struct MergeArgs {
  Index rows = 0;
  Index cols = 0;
  float* max = nullptr;
  float* sum = nullptr;
  float* out = nullptr;  // [rows, cols]
  const float* other_max = nullptr;
  const float* other_sum = nullptr;
  const float* other_out = nullptr;
};

// Some columns of one sequence's rows.
struct ConvArgs {
  const float* x = nullptr;
  Index x_stride = 0;
  Index rows = 0;
  Index cols = 0;
  const float* weight = nullptr;  // [taps, cols]
  Index weight_stride = 0;
  Index taps = 0;          // 2 to 8
  float* state = nullptr;  // [taps - 1, cols]
  Index state_stride = 0;
  bool fresh = false;
  Activation activation = Activation::kNone;
  float* out = nullptr;  // may be x
  Index out_stride = 0;
};

// One vector of columns of a value head's state, along one sequence's rows.
struct DeltaArgs {
  const float* q = nullptr;  // [rows, key_dim], of their length, as k
  Index q_stride = 0;
  const float* k = nullptr;
  Index k_stride = 0;
  const float* v = nullptr;  // [rows, cols]
  Index v_stride = 0;
  const float* decay = nullptr;  // [rows], and as far apart as beta
  const float* beta = nullptr;
  Index gate_stride = 0;
  Index rows = 0;
  Index key_dim = 0;
  Index cols = 0;          // 1 to lanes
  float* state = nullptr;  // [key_dim, cols]
  Index state_stride = 0;
  bool fresh = false;
  float* work = nullptr;  // [key_dim, lanes]
  float* out = nullptr;   // [rows, cols]; may be v
  Index out_stride = 0;
};

struct Kernels {
  const char* name = nullptr;
  Index lanes = 0;

  void (*panels_f32)(const PanelArgs&) = nullptr;
  void (*panels_bf16)(const PanelArgs&) = nullptr;
  void (*finish_row)(const FinishArgs&) = nullptr;

  void (*norm_row)(const NormRowArgs&) = nullptr;
  // Rotates one head in place.
  void (*rope_head)(float* x, const float* cos, const float* sin, Index pairs) = nullptr;
  void (*gated_row)(const float* gate, const float* up, Activation activation, float* out,
                    Index cols) = nullptr;
  void (*add_row)(const float* x, float scale, float* y, Index cols) = nullptr;
  // out = scale * x, or out + scale * x.
  void (*mix_row)(const float* x, float scale, bool accumulate, float* out, Index cols) = nullptr;
  void (*softcap_row)(float* x, float cap, Index cols) = nullptr;
  PartialStats (*stats_row)(const float* x, Index cols) = nullptr;
  // Between the float types, and to them from bytes (kI8, kE4m3); `scale` multiplies before
  // rounding.
  void (*convert_row)(const void* from, DType from_type, void* to, DType to_type, float scale,
                      Index cols) = nullptr;

  // out += x
  void (*accumulate_row)(const void* x, DType type, float* out, Index cols) = nullptr;

  // x *= scale / sqrt(sum of squares + epsilon)
  void (*unit_row)(float* x, float epsilon, float scale, Index cols) = nullptr;
  void (*causal_conv)(const ConvArgs&) = nullptr;
  void (*delta_rule)(const DeltaArgs&) = nullptr;

  AttentionKernels attention;
  void (*merge)(const MergeArgs&) = nullptr;
};

// Where the codes of a panel lie.
enum class CodeOrder : std::uint8_t {
  kInputs,  // [inputs / 8] words of 32 bits [lanes], eight inputs a word from the lowest
  kPairs,   // the same, with a word's even inputs in its lower half and the odd ones in its upper
  kRows,    // [inputs / 128][16 outputs][32] words of 16 bits: nibble i of word j is input 32 i + j
};

// Panels of codes of four bits: `lanes` outputs each, of which each group of inputs has a scale and
// a zero. What a code stands for is code * scale - zero * scale, the latter rounded to f32 first.
struct FourBitPanels {
  const std::byte* weights = nullptr;  // scales [groups][lanes], then zeros, then codes
  Index panel_stride = 0;              // bytes
  Index panels = 0;
  Index zeros = 0;  // bytes [groups][lanes], so far behind a panel's begin
  Index codes = 0;  // the same
  Index group = 0;  // inputs
  DType scale_type = DType::kF32;
  // Of SuperBlocks (ops/formats/block_codes.h) instead: see super_blocks_a8.h. Groups of 32.
  bool super_blocks = false;
};

// As PanelArgs. Codes: CodeOrder::kInputs.
struct FourBitArgs {
  FourBitPanels w;
  Index begin = 0;  // inputs [begin, begin + depth), begin a multiple of 32
  Index depth = 0;
  const float* x = nullptr;  // at input `begin`
  Index x_stride = 0;
  Index rows = 0;
  float* c = nullptr;
  Index c_stride = 0;
  bool accumulate = false;
};

struct FourBitKernels {
  void (*panels)(const FourBitArgs&) = nullptr;
  // c [panels][depth][lanes]: the weights, as PanelArgs has them.
  void (*unpack)(const FourBitArgs&) = nullptr;
};

// On tiles, with 16 outputs a panel. Codes: as TileKernels::code_order says.
struct FourBitTileArgs {
  FourBitPanels w;
  Index begin = 0;  // tiles of 32 inputs; a multiple of 4
  Index depth_tiles = 0;
  // Of multiply():
  const std::byte* x = nullptr;  // as round_pairs() left it
  Index rows = 0;                // 1 to 16
  float* c = nullptr;            // [rows, 16 * panels]
  Index c_stride = 0;
  // Of unpack(): [panels][depth_tiles] tiles, as TileArgs has weights, or codes as numbers.
  std::byte* tiles = nullptr;
};

// c [16 * row_tiles(), 16 * panels] (+)= x times weight panels, of tiles of 1 KiB: 16 rows x 64
// bytes by 64 bytes deep x 16 columns. Of bf16 that is 32 deep, and element sums are f32 and run
// over depth in order; of bytes it is 64, and sums are exact integers. A matrix unit multiplies a
// tile at a time, vectors of bf16 a row of it.
struct TileArgs {
  const std::byte* x = nullptr;  // [row_tiles()][.. depth tiles ..][16][64 bytes]
  Index rows = 0;                // that are wanted; the last tile's others may be written, or not
  Index row_tile_stride = 0;     // bytes from one row tile to the next
  const std::byte* weights = nullptr;
  Index panel_stride = 0;  // bytes
  Index panels = 0;
  Index depth_tiles = 0;
  // What is multiplied after the last of these panels, of the same strides, or null where it is
  // what lies behind them: asked for ahead, never read.
  const std::byte* next = nullptr;
  float* c = nullptr;  // of bytes: 32-bit integers
  Index c_stride = 0;
  bool accumulate = false;
  // Of bytes: [16 * panels] what sums begin at where they do not accumulate.
  const std::int32_t* starts = nullptr;
  // Of what unpack_four_bits() left: the codes, and the first of these tiles of their depth.
  const FourBitPanels* grid = nullptr;
  Index begin = 0;
  // Of bf16, a row alone needs no matrix unit: where only row 0 is wanted, room for
  // 32 * depth_tiles floats. The other rows of c are left as they are then.
  float* one_row = nullptr;

  Index row_tiles() const { return (rows + 15) / 16; }
};
constexpr Index kTileBytes = 1024;
constexpr Index kMaxUnpackedTiles = 16;  // of depth: what is unpacked and multiplied at a time

// W4A8Args on a matrix unit, of panels of 16 outputs: see w4a8_tiles.h.
struct W4A8TileArgs {
  FourBitPanels w;
  Index words = 0;  // of eight codes, that an output has
  // Inputs of a tile: 64, or 32 where there are several groups and they are not whole tiles of 64.
  Index tile_inputs = 64;
  // Tiles [begin, begin + depth_tiles): whole groups. c begins anew with the first.
  Index begin = 0;
  Index depth_tiles = 0;
  // Codes that are multiplied after those of the last panels, of the same stride: asked for ahead,
  // never read.
  const std::byte* next = nullptr;
  // [row_tiles()][.. depth tiles ..][16][tile_inputs], from tile `begin` on
  const std::byte* x = nullptr;
  Index row_tile_stride = 0;  // bytes
  Index rows = 0;
  // [pairs of row tiles][pairs of panels][2][2][16][16]: floats() of them. What makes pairs whole
  // may be written.
  float* c = nullptr;
  std::byte* room = nullptr;  // room_bytes()

  Index row_tiles() const { return (rows + 15) / 16; }
  static Index floats(Index rows, Index panels) {
    return (rows + 31) / 32 * ((panels + 1) / 2) * 1024;
  }
  // Two panels of tiles, two rows of floats for each, two groups' sums, and a c that is no one's.
  static Index room_bytes(Index depth_tiles, Index tile_inputs) {
    return 2 * depth_tiles * (16 * tile_inputs + 2 * 64) + 3 * 4096;
  }
};

// The same of SuperBlocks: see super_block_tiles.h.
struct SuperBlockTileArgs {
  static constexpr Index kTiles = 5;  // of x and of weights for a block: one of sums and minima
  FourBitPanels w;
  Index begin = 0;  // SuperBlocks [begin, begin + blocks); c begins anew with the first
  Index blocks = 0;
  // What is multiplied after the last panel, asked for ahead, never read.
  const std::byte* next = nullptr;
  const std::byte* x = nullptr;  // [row_tiles()][.. blocks ..][kTiles][16][64], from `begin` on
  Index row_tile_stride = 0;     // bytes
  Index rows = 0;
  float* c = nullptr;         // as W4A8TileArgs has it
  std::byte* room = nullptr;  // room_bytes()

  Index row_tiles() const { return (rows + 15) / 16; }
  // Two planes of tiles and two rows of floats for a block; the sums of two blocks and of one's
  // minima, and a c that is no one's.
  static Index room_bytes(Index blocks) {
    return blocks * (2 * kTiles * kTileBytes + 2 * 64) + 4 * 4096;
  }
};

struct TileKernels {
  // One row tile: rows past `rows` are left as they are, columns are filled up with zeros.
  void (*round_rows)(const float* x, Index x_stride, Index rows, Index cols, Bf16* out) = nullptr;
  void (*multiply)(const TileArgs&) = nullptr;  // bf16
  // Even: of so many panels at a time, and multiples, multiply() leaves no rest that is slower.
  Index panel_unit = 2;
  // x as Int8Kernels::round_activations left it. Up to int8_rows rows Int8Kernels take as long, or
  // less.
  void (*multiply_int8)(const TileArgs&) = nullptr;
  Index int8_rows = 8;
  // Null but on a matrix unit.
  // The bits of W4A8Kernels::multiply; x as W4A8Kernels::round_row left it.
  void (*multiply_w4a8)(const W4A8TileArgs&) = nullptr;
  // Row `row` of such a c, times `scale`, as [16 * panels].
  void (*scale_code_row)(const float* c, Index panels, Index row, float scale,
                         float* out) = nullptr;
  CodeOrder code_order = CodeOrder::kInputs;
  // Tiles [begin, end) of 32 columns of up to 16 rows, to bf16, as multiply_four_bits() takes them:
  // 64 bytes a row. Columns from `cols` on become zeros.
  void (*round_pairs)(const float* x, Index x_stride, Index rows, Index cols, Index begin,
                      Index end, Bf16* out) = nullptr;
  // The bits of unpack_four_bits() and multiply().
  void (*multiply_four_bits)(const FourBitTileArgs&) = nullptr;
  void (*unpack_four_bits)(const FourBitTileArgs&) = nullptr;
  AttentionKernels attention;
  // As multiply_w4a8, of SuperBlocks.
  void (*multiply_super_blocks)(const SuperBlockTileArgs&) = nullptr;
};

// c [rows, panels * lanes] (+)= x [rows, depth] times `panels` panels of bytes, in integers: exact.
// A panel is [depth / 4][lanes][4].
struct Int8PanelArgs {
  const std::uint8_t* x = nullptr;  // codes + Int8Kernels::offset
  Index x_stride = 0;
  Index rows = 0;
  const std::int8_t* weights = nullptr;
  Index panel_stride = 0;  // bytes
  Index panels = 0;
  Index depth = 0;                       // a multiple of 4
  const std::int32_t* starts = nullptr;  // [panels * lanes] what sums begin at, unless:
  bool accumulate = false;               // c = c + sum
  std::int32_t* c = nullptr;
  Index c_stride = 0;
};

// Rounding of rows to eight bits (ops/formats/int8_rows.h) and their products. Lanes are those of
// the Kernels of the same instruction set.
struct Int8Kernels {
  // Added to the codes of activations, modulo 256, as they are stored.
  std::uint8_t offset = 0;
  // Both return the scale. What fills `codes` up to `padded` stands for zeros.
  float (*round_activations)(const float* row, Index cols, Index padded,
                             std::uint8_t* codes) = nullptr;
  float (*round_weights)(const float* row, Index cols, std::int8_t* codes) = nullptr;
  void (*panels)(const Int8PanelArgs&) = nullptr;
  // out = sum * scale * row_scale; whole vectors.
  void (*scale_row)(const std::int32_t* sums, const float* scales, float row_scale, Index cols,
                    float* out) = nullptr;
};

// c [rows, panels * lanes] (+)= rows of bytes times codes of four bits, CodeOrder::kInputs: see
// w4a8.h. A row's scale is not multiplied in.
struct W4A8Args {
  FourBitPanels w;
  Index begin = 0;  // inputs [begin, begin + depth): whole groups, c begins anew with the first
  Index depth = 0;
  const std::int8_t* x = nullptr;  // as W4A8Kernels::round_row left it
  Index x_stride = 0;
  const std::int32_t* x_sums = nullptr;  // [rows][groups]
  Index x_sums_stride = 0;
  Index rows = 0;
  float* c = nullptr;
  Index c_stride = 0;
};

struct W4A8Kernels {
  // Rounds a row of activations (ops/formats/int8_rows.h); the scale. `out` has room for a multiple
  // of 32; sums: of the codes of each group of inputs.
  float (*round_row)(const float* row, Index cols, Index group, std::int8_t* out,
                     std::int32_t* sums) = nullptr;
  void (*multiply)(const W4A8Args&) = nullptr;
};

const W4A8Kernels& portable_w4a8();
const W4A8Kernels& neon_w4a8();
const W4A8Kernels& dotprod_w4a8();
const W4A8Kernels& avx2_w4a8();
const W4A8Kernels& avxvnni_w4a8();
const W4A8Kernels& avx512_w4a8();
const W4A8Kernels& vnni_w4a8();

const Int8Kernels& portable_int8();
const Int8Kernels& neon_int8();
const Int8Kernels& dotprod_int8();
const Int8Kernels& avx2_int8();
const Int8Kernels& avxvnni_int8();
const Int8Kernels& avx512_int8();
const Int8Kernels& vnni_int8();

const FourBitKernels& portable_four_bits();
const FourBitKernels& neon_four_bits();
const FourBitKernels& avx2_four_bits();
const FourBitKernels& avx512_four_bits();

const TileKernels& bf16_kernels();
const TileKernels& amx_kernels();
const Kernels& portable_kernels();
const Kernels& neon_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace saccade::cpu
