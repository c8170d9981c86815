// The loop that multiplies int8 activations by 4-bit weights on a matrix unit, with a unit in
// software, so that it is tested where there is none: the definition's sums to the bit, over depths
// that end within a tile and a group, in any steps, over odd numbers of rows and panels, for tiles
// of 64 inputs and of 32 and scales that are anything.
#include "ops/cpu/products/w4a8_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/threads/thread_pool.h"
#include "ops/cpu/products/super_block_tiles.h"
#include "ops/cpu/weights/four_bit_weight.h"
#include "tests/ops/four_bit_cases.h"

namespace saccade::cpu {
namespace {

struct Floats {
  float lanes[16];
  friend Floats operator*(const Floats& a, const Floats& b) {
    Floats c;
    for (int i = 0; i < 16; ++i) c.lanes[i] = a.lanes[i] * b.lanes[i];
    return c;
  }
  friend Floats operator+(const Floats& a, const Floats& b) {
    Floats c;
    for (int i = 0; i < 16; ++i) c.lanes[i] = a.lanes[i] + b.lanes[i];
    return c;
  }
};

struct SoftVec {
  using F = Floats;
  static constexpr int kLanes = 16;
  static F load(const float* p) {
    F a;
    std::memcpy(&a, p, sizeof(a));
    return a;
  }
  template <typename Half>
  static F load(const Half* p) {
    F a;
    for (int i = 0; i < 16; ++i) a.lanes[i] = to_float(p[i]);
    return a;
  }
  static void store(float* p, const F& a) { std::memcpy(p, &a, sizeof(a)); }
  static F set(float x) {
    F a;
    std::ranges::fill(a.lanes, x);
    return a;
  }
  static F fma(const F& a, const F& b, F c) {
    for (int i = 0; i < 16; ++i) c.lanes[i] = std::fma(a.lanes[i], b.lanes[i], c.lanes[i]);
    return c;
  }
};

struct SoftBytes {
  struct B {
    std::uint8_t bytes[64];
  };
  struct I {
    std::int32_t lanes[16];
  };
  static B load_codes(const std::byte* p) {
    B a;
    std::memcpy(&a, p, sizeof(a));
    return a;
  }
  static I load_sums(const std::int32_t* p) {
    I a;
    std::memcpy(&a, p, sizeof(a));
    return a;
  }
  static void store(std::byte* p, const B& a) { std::memcpy(p, &a, sizeof(a)); }
  static B low_nibbles(B a) {
    for (std::uint8_t& byte : a.bytes) byte &= 15;
    return a;
  }
  static B high_nibbles(B a) {
    for (std::uint8_t& byte : a.bytes) byte >>= 4;
    return a;
  }
  static B minus(B a, const B& b) {
    for (int i = 0; i < 64; ++i) a.bytes[i] = static_cast<std::uint8_t>(a.bytes[i] - b.bytes[i]);
    return a;
  }
  static B four_times(const std::uint8_t* p) {
    B a;
    for (int i = 0; i < 64; ++i) a.bytes[i] = p[i / 4];
    return a;
  }
  // As vectors do, it wraps: before the first block are sums of nothing, which nobody reads.
  template <unsigned kShift>
  static I plus_shifted(I sum, const I& a) {
    for (int i = 0; i < 16; ++i)
      sum.lanes[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum.lanes[i]) +
                                               (static_cast<std::uint32_t>(a.lanes[i]) << kShift));
    return sum;
  }
  static B times(B a, const B& b) {
    for (int i = 0; i < 64; ++i) a.bytes[i] = static_cast<std::uint8_t>(a.bytes[i] * b.bytes[i]);
    return a;
  }
  static Floats as_float(const I& a) { return std::bit_cast<Floats>(a); }
  static Floats to_float(const I& a) {
    Floats b;
    for (int i = 0; i < 16; ++i) b.lanes[i] = static_cast<float>(a.lanes[i]);
    return b;
  }
};

// Eight tiles of up to 1 KiB, as Intel's manual has TDPBSSD. Of x and weights the rest is not zero.
template <std::int64_t kInputs>
struct SoftUnit {
  static constexpr std::int64_t kDepth = kInputs;
  struct Session {
    Session() { std::memset(tiles, 0x55, sizeof(tiles)); }
  };
  template <int kTile>
  static void zero() {
    std::memset(tiles[kTile], 0, sizeof(tiles[kTile]));
  }
  template <int kTile>
  static void fill(const std::int32_t* row) {
    for (auto& to : tiles[kTile]) std::memcpy(to, row, sizeof(to));
  }
  template <int kTile>
  static void load(const std::byte* from) {
    const std::int64_t rows = kTile < 6 ? 16 : kInputs / 4;
    const std::int64_t bytes = kTile < 6 ? kInputs : 64;
    for (std::int64_t row = 0; row < rows; ++row)
      std::memcpy(tiles[kTile][row], from + row * bytes, static_cast<std::size_t>(bytes));
  }
  template <int kTile>
  static void store(std::int32_t* to) {
    std::memcpy(to, tiles[kTile], sizeof(tiles[kTile]));
  }
  template <int kSum, int kX, int kWeights>
  static void multiply() {
    for (int row = 0; row < 16; ++row) {
      for (int col = 0; col < 16; ++col) {
        std::int32_t sum = 0;
        std::memcpy(&sum, &tiles[kSum][row][4 * col], sizeof(sum));
        for (int k = 0; k < kInputs; ++k)
          sum += tiles[kX][row][k] * tiles[kWeights][k / 4][4 * col + k % 4];
        std::memcpy(&tiles[kSum][row][4 * col], &sum, sizeof(sum));
      }
    }
  }
  static inline std::int8_t tiles[8][16][64];
};

template <std::int64_t kInputs>
using Tiles = W4A8Tiles<SoftVec, SoftBytes, SoftUnit<kInputs>>;

// Rows of random bytes, as they are and as tiles. Of each row's inputs from `zeros` on, 32 are
// zero.
struct ByteRows {
  ByteRows(std::int64_t rows, std::int64_t in, std::int64_t tile_inputs, std::int64_t zeros,
           Rng& rng)
      : depth_tiles((in + tile_inputs - 1) / tile_inputs),
        bytes(static_cast<std::size_t>(rows * in)),
        tiles(static_cast<std::size_t>((rows + 15) / 16 * depth_tiles * 16 * tile_inputs)) {
    constexpr int kPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of a word's inputs
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < in; ++col) {
        const bool zero = col >= zeros && col < zeros + 32;
        const auto value =
            static_cast<std::int8_t>(zero ? 0 : static_cast<int>(rng.below(255)) - 127);
        bytes[static_cast<std::size_t>(row * in + col)] = value;
        const std::int64_t at = col / 8 * 8 + kPlace[col % 8];
        const std::int64_t tile = row / 16 * depth_tiles + at / tile_inputs;
        tiles[static_cast<std::size_t>((tile * 16 + row % 16) * tile_inputs + at % tile_inputs)] =
            static_cast<std::byte>(value);
      }
    }
  }
  std::int64_t depth_tiles;
  std::vector<std::int8_t> bytes;
  std::vector<std::byte> tiles;
};

// The definition, of an output's codes and a row of x, before the row's scale.
float sum_of(const StoredMatrixReader& codes, const std::uint8_t* row_codes, std::int64_t out,
             const std::int8_t* x) {
  const std::int64_t in = codes.matrix().in();
  const std::int64_t group = codes.matrix().group;
  float sum = 0;
  for (std::int64_t begin = 0; begin < in; begin += group) {
    std::int32_t exact = 0;
    const auto of = static_cast<std::int32_t>(begin / group);
    for (std::int64_t col = begin; col < std::min(begin + group, in); ++col)
      exact += x[col] * (row_codes[col] - codes.zero(of, out));
    const float value = static_cast<float>(exact) * codes.scale(of, out);
    sum = sum + value;
  }
  return sum;
}

// One bit pattern for all that is not a number.
std::uint32_t bits_of(float value) {
  return std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value);
}

void expect_definition(const StoredMatrix& matrix, std::int64_t rows, std::int64_t zeros,
                       std::int64_t step_groups) {
  SCOPED_TRACE(fmt::format("{} x {}, groups of {}, {} rows, {} groups a step", matrix.out(),
                           matrix.in(), matrix.group, rows, step_groups));
  ThreadPool pool(1);
  const auto weight = FourBitWeight::pack({&matrix, 1}, 16, CodeOrder::kInputs, pool);
  ASSERT_NE(weight, nullptr);
  const std::int64_t in = matrix.in();
  const std::int64_t inputs = weight->groups() == 1 || weight->group() % 64 == 0 ? 64 : 32;
  const StoredMatrixReader reader(matrix);
  std::vector<std::uint8_t> all(static_cast<std::size_t>(matrix.out() * in));
  reader.read_codes(0, matrix.out(), 0, in, all.data(), in);
  Rng rng(3);
  const ByteRows x(rows, in, inputs, zeros, rng);
  const std::int64_t group_tiles = (weight->group() + inputs - 1) / inputs;
  const std::int64_t step = std::min(x.depth_tiles, step_groups * group_tiles);
  constexpr float kOld = 3;  // of earlier use
  std::vector<float> c(static_cast<std::size_t>(W4A8TileArgs::floats(rows, weight->panels())),
                       kOld);
  std::vector<std::byte> room(static_cast<std::size_t>(W4A8TileArgs::room_bytes(step, inputs)));
  W4A8TileArgs args;
  args.w = weight->panels(0, weight->panels());
  args.words = (in + 31) / 32 * 4;
  args.tile_inputs = inputs;
  args.row_tile_stride = x.depth_tiles * 16 * inputs;
  args.rows = rows;
  args.c = c.data();
  args.room = room.data();
  args.next = args.w.weights;
  for (args.begin = 0; args.begin < x.depth_tiles; args.begin += step) {
    args.depth_tiles = std::min(step, x.depth_tiles - args.begin);
    args.x = x.tiles.data() + args.begin * 16 * inputs;
    if (inputs == 32)
      Tiles<32>::multiply(args);
    else
      Tiles<64>::multiply(args);
  }
  std::vector<float> row_of_c(static_cast<std::size_t>(weight->panels() * 16));
  for (std::int64_t row = 0; row < rows; ++row) {
    Tiles<64>::scale_row(c.data(), weight->panels(), row, 0.37F, row_of_c.data());
    for (std::int64_t out = 0; out < matrix.out(); ++out)
      ASSERT_EQ(
          bits_of(row_of_c[static_cast<std::size_t>(out)]),
          bits_of(0.37F * sum_of(reader, all.data() + out * in, out, x.bytes.data() + row * in)))
          << "row " << row << ", output " << out;
  }
}

TEST(W4A8Tiles, GiveTheDefinitionsSumsInAnySteps) {
  using Format = StoredMatrix::Format;
  const CodesShape shapes[] = {
      {8, 64, 64},
      {24, 128, 128, Format::kGptq, DType::kBf16},
      {40, 160, 128},              // ends in the middle of a tile
      {72, 96, 96, Format::kAwq},  // one group
      {48, 200, 200},              // the same, of no whole word of 32
      {16, 1320, 128, Format::kGptq, DType::kF32},
      {56, 448, 64, Format::kAwq},
      {80, 1024, 256},
      {24, 64, 32},
      {72, 96, 32, Format::kAwq},  // an odd number of tiles of 32
      {40, 1024, 32, Format::kGptq, DType::kBf16},
      {56, 416, 32, Format::kGptq, DType::kF32},
      {16, 480, 96},  // groups of three tiles of 32
      {40, 352, 96, Format::kAwq, DType::kBf16},
  };
  for (const CodesShape& shape : shapes) {
    const Codes codes(shape);
    StoredMatrix matrix = codes.matrix();
    matrix.rounds_activations = true;
    for (const std::int64_t rows : {1, 16, 17, 32, 33, 70}) {
      for (const std::int64_t step_groups : {1, 2, 3, 100})
        expect_definition(matrix, rows, shape.in, step_groups);
    }
  }
}

// Negative, so that sums of nothing are a negative zero; too large to be lifted; none at all.
TEST(W4A8Tiles, TakeAnyScales) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float some[] = {-0.01F, 0.02F, -1e-7F, 0, 6e4F};
  for (const DType type : {DType::kF16, DType::kBf16, DType::kF32}) {
    for (const float odd : {-0.02F, 3e38F, -1e-40F, kInfinity, -kInfinity, std::nanf("")}) {
      for (const std::int64_t group : {32, 64}) {
        SCOPED_TRACE(fmt::format("{}, {}", name_of(type), odd));
        const Codes codes({40, 320, group, StoredMatrix::Format::kGptq, type});
        StoredMatrix matrix = codes.matrix();
        matrix.rounds_activations = true;
        std::vector<std::byte> scales;
        for (std::int64_t i = 0; i < 320 / group * 40; ++i) {
          const float value = i == 57 ? odd : some[i % 5];
          const std::uint16_t half = type == DType::kF16 ? to_f16(value).bits : to_bf16(value).bits;
          const auto bytes = type == DType::kF32 ? std::as_bytes(std::span(&value, 1))
                                                 : std::as_bytes(std::span(&half, 1));
          scales.insert(scales.end(), bytes.begin(), bytes.end());
        }
        matrix.scales = {type, scales};
        for (const std::int64_t zeros : {0, 32, 320}) expect_definition(matrix, 33, zeros, 2);
      }
    }
  }
}

// All of x is nothing, and so is what comes of it: no negative zero.
TEST(W4A8Tiles, SumsOfNothingAreZero) {
  const Codes codes({24, 32, 32, StoredMatrix::Format::kGptq, DType::kF16});
  StoredMatrix matrix = codes.matrix();
  matrix.rounds_activations = true;
  const std::vector<std::uint16_t> scales(24, to_f16(-1.0F).bits);
  matrix.scales = {DType::kF16, std::as_bytes(std::span(scales))};
  expect_definition(matrix, 17, 0, 1);
}

using BlockTiles = SuperBlockTiles<SoftVec, SoftBytes, SoftUnit<64>>;

void expect_super_blocks(const StoredMatrix& matrix, std::int64_t rows, std::int64_t step,
                         bool largest) {
  SCOPED_TRACE(
      fmt::format("{} x {}, {} rows, {} blocks a step", matrix.out(), matrix.in(), rows, step));
  ThreadPool pool(1);
  const auto weight = FourBitWeight::pack({&matrix, 1}, 16, CodeOrder::kInputs, pool);
  ASSERT_NE(weight, nullptr);
  ASSERT_TRUE(weight->super_blocks());
  const std::int64_t in = matrix.in();
  const std::int64_t blocks = in / SuperBlock::kElements;
  constexpr std::int64_t kTiles = SuperBlockTileArgs::kTiles;
  Rng rng(3);
  ByteRows x(rows, in, 64, in, rng);
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>((rows + 15) / 16 * blocks * kTiles) *
                                  1024);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int8_t* const bytes = x.bytes.data() + row * in;
    if (largest) std::fill_n(bytes, in, static_cast<std::int8_t>(row % 2 == 0 ? 127 : -127));
    for (std::int64_t block = 0; block < blocks; ++block) {
      std::int32_t sums[SuperBlock::kUnits] = {};
      std::uint8_t* const to = tiles.data() + (row / 16 * blocks + block) * kTiles * 1024;
      for (std::int64_t i = 0; i < SuperBlock::kElements; ++i) {
        constexpr int kPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of a word's inputs
        const std::int8_t value = bytes[block * SuperBlock::kElements + i];
        sums[i / kBlockUnit] += value;
        const std::int64_t at = i / 8 * 8 + kPlace[i % 8];
        to[at / 64 * 1024 + row % 16 * 64 + at % 64] = static_cast<std::uint8_t>(value);
      }
      split_sums(sums, to + (kTiles - 1) * 1024 + row % 16 * 64);
    }
  }
  std::vector<float> c(static_cast<std::size_t>(W4A8TileArgs::floats(rows, weight->panels())),
                       3);  // of earlier use
  std::vector<std::byte> room(static_cast<std::size_t>(SuperBlockTileArgs::room_bytes(step)));
  SuperBlockTileArgs args;
  args.w = weight->panels(0, weight->panels());
  args.row_tile_stride = blocks * kTiles * 1024;
  args.rows = rows;
  args.c = c.data();
  args.room = room.data();
  args.next = args.w.weights;
  for (args.begin = 0; args.begin < blocks; args.begin += step) {
    args.blocks = std::min(step, blocks - args.begin);
    args.x = reinterpret_cast<const std::byte*>(tiles.data()) + args.begin * kTiles * 1024;
    BlockTiles::multiply(args);
  }
  std::vector<float> row_of_c(static_cast<std::size_t>(weight->panels() * 16));
  for (std::int64_t row = 0; row < rows; ++row) {
    Tiles<64>::scale_row(c.data(), weight->panels(), row, 0.37F, row_of_c.data());
    const std::span row_of_x(x.bytes.data() + row * in, static_cast<std::size_t>(in));
    for (std::int64_t out = 0; out < matrix.out(); ++out)
      ASSERT_EQ(bits_of(row_of_c[static_cast<std::size_t>(out)]),
                bits_of(0.37F * sum_of_super_blocks(matrix, out, row_of_x)))
          << "row " << row << ", output " << out;
  }
}

TEST(SuperBlockTiles, GiveTheDefinitionsSumsInAnySteps) {
  for (const auto& [out, in] : {std::pair{8, 256}, {40, 768}, {48, 1280}}) {
    const SuperBlocks blocks(out, in);
    for (const std::int64_t rows : {1, 16, 17, 32, 33, 70}) {
      for (const std::int64_t step : {1, 2, 3})
        expect_super_blocks(blocks.matrix(), rows, step, false);
    }
  }
}

TEST(SuperBlockTiles, TakeTheLargestSumsAndAnyScales) {
  SuperBlocks blocks(24, 512);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float d : {0.5F, -0.01F, 0.0F, 6e-8F, 6e4F, kInfinity, std::nanf("")}) {
    for (const int bits : {0xff, 0x7f, 0}) {
      blocks.fill(static_cast<std::uint8_t>(bits), d, 0.25F);
      expect_super_blocks(blocks.matrix(), 33, 2, true);
      blocks.fill(static_cast<std::uint8_t>(bits), 0.25F, d);
      expect_super_blocks(blocks.matrix(), 33, 2, true);
    }
  }
}

}  // namespace
}  // namespace saccade::cpu
