// The loop that multiplies rows of bytes by codes of four bits on a matrix unit, with a unit in
// software, so that it is tested where there is none: the definition's sums to the bit, over depths
// that end within a tile and a group, in any steps, over odd numbers of rows and panels.
#include "ops/cpu/code_byte_tiles.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "ops/cpu/four_bit_weight.h"
#include "ops/test_codes.h"

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
  static Floats to_float(const I& a) {
    Floats b;
    for (int i = 0; i < 16; ++i) b.lanes[i] = static_cast<float>(a.lanes[i]);
    return b;
  }
};

// Eight tiles of 1 KiB, as Intel's manual has TDPBSSD.
struct SoftUnit {
  struct Session {};
  template <int kTile>
  static void zero() {
    std::memset(tiles[kTile], 0, sizeof(tiles[kTile]));
  }
  template <int kTile>
  static void load(const std::byte* from) {
    std::memcpy(tiles[kTile], from, sizeof(tiles[kTile]));
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
        for (int k = 0; k < 64; ++k)
          sum += tiles[kX][row][k] * tiles[kWeights][k / 4][4 * col + k % 4];
        std::memcpy(&tiles[kSum][row][4 * col], &sum, sizeof(sum));
      }
    }
  }
  static inline std::int8_t tiles[8][16][64];
};

using Tiles = CodeByteTiles<SoftVec, SoftBytes, SoftUnit>;

// Rows of random bytes, as they are and as tiles.
struct ByteRows {
  ByteRows(std::int64_t rows, std::int64_t in, Rng& rng)
      : depth_tiles((in + 63) / 64),
        bytes(static_cast<std::size_t>(rows * in)),
        tiles(static_cast<std::size_t>((rows + 15) / 16 * depth_tiles * kTileBytes)) {
    constexpr int kPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of a word's inputs
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < in; ++col) {
        const auto value = static_cast<std::int8_t>(static_cast<int>(rng.below(255)) - 127);
        bytes[static_cast<std::size_t>(row * in + col)] = value;
        const std::int64_t at = col / 8 * 8 + kPlace[col % 8];
        tiles[static_cast<std::size_t>(((row / 16 * depth_tiles + at / 64) * 16 + row % 16) * 64 +
                                       at % 64)] = static_cast<std::byte>(value);
      }
    }
  }
  std::int64_t depth_tiles;
  std::vector<std::int8_t> bytes;
  std::vector<std::byte> tiles;
};

// The definition.
float sum_of(const StoredMatrixReader& codes, const std::uint8_t* row_codes, std::int64_t out,
             const std::int8_t* x, std::int64_t in, std::int64_t group, float row_scale) {
  float sum = 0;
  for (std::int64_t begin = 0; begin < in; begin += group) {
    std::int32_t exact = 0;
    const auto of = static_cast<std::int32_t>(begin / group);
    for (std::int64_t col = begin; col < std::min(begin + group, in); ++col)
      exact += x[col] * (row_codes[col] - codes.zero(of, out));
    const float value = static_cast<float>(exact) * codes.scale(of, out);
    sum = begin == 0 ? value : sum + value;
  }
  return row_scale * sum;
}

TEST(CodeByteTiles, GiveTheDefinitionsSumsInAnySteps) {
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
  };
  ThreadPool pool(1);
  for (const CodesShape& shape : shapes) {
    const Codes codes(shape);
    StoredMatrix matrix = codes.matrix();
    matrix.rounds_activations = true;
    const auto weight = FourBitWeight::pack({&matrix, 1}, 16, CodeOrder::kInputs, pool);
    ASSERT_NE(weight, nullptr);
    const StoredMatrixReader reader(matrix);
    std::vector<std::uint8_t> all(static_cast<std::size_t>(shape.out * shape.in));
    reader.read_codes(0, shape.out, 0, shape.in, all.data(), shape.in);
    for (const std::int64_t rows : {1, 16, 17, 32, 33, 70}) {
      Rng rng(3);
      const ByteRows x(rows, shape.in, rng);
      for (const std::int64_t step_groups : {1, 2, 100}) {
        SCOPED_TRACE(fmt::format("{} x {}, groups of {}, {} rows, {} groups a step", shape.out,
                                 shape.in, shape.group, rows, step_groups));
        const std::int64_t group_tiles = (weight->group() + 63) / 64;
        const std::int64_t step = std::min(x.depth_tiles, step_groups * group_tiles);
        std::vector<float> c(
            static_cast<std::size_t>(CodeByteTileArgs::numbers(rows, weight->panels())));
        std::vector<std::byte> room(static_cast<std::size_t>(CodeByteTileArgs::room_bytes(step)));
        CodeByteTileArgs args;
        args.w = weight->panels(0, weight->panels());
        args.words = (shape.in + 31) / 32 * 4;
        args.row_tile_stride = x.depth_tiles * kTileBytes;
        args.rows = rows;
        args.c = c.data();
        args.room = room.data();
        args.next = args.w.weights;
        for (args.begin = 0; args.begin < x.depth_tiles; args.begin += step) {
          args.depth_tiles = std::min(step, x.depth_tiles - args.begin);
          args.x = x.tiles.data() + args.begin * kTileBytes;
          Tiles::multiply(args);
        }
        std::vector<float> row_of_c(static_cast<std::size_t>(weight->panels() * 16));
        for (std::int64_t row = 0; row < rows; ++row) {
          Tiles::scale_row(c.data(), weight->panels(), row, 0.37F, row_of_c.data());
          for (std::int64_t out = 0; out < shape.out; ++out)
            ASSERT_EQ(std::bit_cast<std::uint32_t>(row_of_c[static_cast<std::size_t>(out)]),
                      std::bit_cast<std::uint32_t>(sum_of(reader, all.data() + out * shape.in, out,
                                                          x.bytes.data() + row * shape.in, shape.in,
                                                          shape.group, 0.37F)))
                << "row " << row << ", output " << out;
        }
      }
    }
  }
}

}  // namespace
}  // namespace saccade::cpu
