// The kernels of products whose operands are both E4M3, on the emulated device: rows rounded as
// e4m3_rows.h defines it, sums near the exact ones, and rows that do not know of each other.
#include "ops/cuda/products/e4m3_kernels.h"

#include <algorithm>

#include "ops/formats/e4m3_rows.h"
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

// Codes in the memory of the emulated device, with a scale for each group of each row; those of
// rows of activations by group, as kernels write them, those of weights as `places` says.
struct Codes {
  std::int64_t rows, cols, group, groups, stride;
  std::vector<std::byte> codes;
  std::vector<float> scales;
  ScalePlaces places;

  Codes(std::int64_t row_count, std::int64_t col_count, std::int64_t group_length,
        ScalePlaces where = {})
      : rows(row_count),
        cols(col_count),
        group(group_length),
        groups((col_count + group_length - 1) / group_length),
        stride((col_count + 15) / 16 * 16),
        codes(static_cast<std::size_t>(rows * stride)),
        places(where) {
    if (places.group_step == 0) places.group_step = rows;
    scales.resize(static_cast<std::size_t>(places.of(rows - 1, groups - 1) + 1));
  }
  Codes& random(Rng& rng) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t col = 0; col < cols; ++col) {
        const auto any = static_cast<std::uint8_t>(rng.below(256));
        codes[static_cast<std::size_t>(row * stride + col)] =
            std::byte{(any & 127) == 127 ? std::uint8_t{1} : any};
      }
    for (float& scale : scales) scale = static_cast<float>(0.001 + 0.01 * rng.uniform());
    return *this;
  }
  double number(std::int64_t row, std::int64_t col) const {
    const auto code =
        std::to_integer<std::uint8_t>(codes[static_cast<std::size_t>(row * stride + col)]);
    return static_cast<double>(to_float(E4m3{code})) *
           scales[static_cast<std::size_t>(places.of(row, col / group))];
  }
  E4m3Rows as_rows() { return {codes.data(), stride, scales.data(), places.group_step}; }
  CodedRows weight() const {
    CodedRows made;
    made.form = CodeForm::kE4m3Rows;
    made.codes = codes.data();
    made.rows = rows;
    made.cols = cols;
    made.stride = stride;
    made.scales = scales.data();
    made.groups = groups;
    made.group_steps = static_cast<int>((group + 15) / 16);
    made.places = places;
    return made;
  }
};

TEST(E4m3Kernels, RowsAreRoundedAsDefined) {
  Rng rng(1);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const bool odd : {false, true}) {
      for (const std::int64_t cols : {1, 4, 15, 64, 600, 1030}) {
        for (const std::int64_t group : {cols, std::int64_t{32}, std::int64_t{128}}) {
          for (const float given : {0.0F, 0.03F}) {
            TestRows x(6, cols, type, odd);
            x.random(rng, 3);
            for (std::int64_t col = 0; col < cols; ++col) {
              x.set(1, col, 0);
              x.set(2, col, static_cast<float>(17 + 2 * (col % 16)));  // all ties
              x.set(3, col, x.at(0, col) * 1e-33F);
            }
            x.set(2, 0, 448);
            x.set(4, cols - 1, -std::numeric_limits<float>::infinity());
            x.set(5, cols / 2, std::numeric_limits<float>::quiet_NaN());
            Codes got(6, cols, std::min(group, cols));
            std::ranges::fill(got.codes, std::byte{99});
            launch_round_e4m3(
                {.x = x.rows(), .out = got.as_rows(), .group = got.group, .given = given}, nullptr);
            for (std::int64_t row = 0; row < 6; ++row) {
              std::vector<std::uint8_t> want;
              for (std::int64_t begin = 0; begin < cols; begin += got.group) {
                std::vector<float> values;
                for (std::int64_t col = begin; col < std::min(cols, begin + got.group); ++col)
                  values.push_back(x.at(row, col));
                std::vector<std::uint8_t> codes(values.size());
                const float scale = round_to_e4m3(values, codes, given);
                const float seen =
                    got.scales[static_cast<std::size_t>(begin / got.group * 6 + row)];
                ASSERT_EQ(std::isnan(seen), std::isnan(scale)) << row << " " << begin;
                if (!std::isnan(scale)) {
                  ASSERT_EQ(seen, scale) << row << " " << begin;
                }
                want.insert(want.end(), codes.begin(), codes.end());
              }
              want.resize(static_cast<std::size_t>(got.stride));
              for (std::int64_t col = 0; col < got.stride; ++col)
                ASSERT_EQ(std::to_integer<int>(
                              got.codes[static_cast<std::size_t>(row * got.stride + col)]),
                          want[static_cast<std::size_t>(col)])
                    << "row " << row << " col " << col << " of " << cols << " by " << group;
            }
          }
        }
      }
    }
  }
}

// Products of two codes are exact in f32: a sum of n of them, group by group, is off by n roundings
// of the sum of their magnitudes, and a few more.
TEST(E4m3Kernels, ProductsAreNearTheExactOnes) {
  Rng rng(2);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const std::int64_t rows : {1, 17, 33, 70}) {
      for (const std::int64_t in : {1, 33, 64, 300}) {
        for (const std::int64_t group : {in, std::int64_t{32}, std::int64_t{128}}) {
          constexpr std::int64_t kOut = 37;
          Codes x(rows, in, std::min(group, in));
          x.random(rng);
          ScalePlaces blocks = {.block = 16, .block_step = 12, .group_step = 1};
          if (rows == 17) blocks = {};
          const Codes weight = Codes(kOut, in, std::min(group, in), blocks).random(rng);
          TestRows y(rows, kOut, type, in == 33);
          y.random(rng);
          const TestRows residual = y;
          std::vector<float> bias;
          for (std::int64_t i = 0; i < kOut; ++i) bias.push_back(static_cast<float>(rng.uniform()));
          launch_gemm_e4m3({.x = x.as_rows(),
                            .weight = weight.weight(),
                            .bias = bias.data(),
                            .residual = y.rows(),
                            .y = y.rows()},
                           nullptr);
          const auto sum = [&](std::int64_t row, std::int64_t col, bool sizes) {
            double total = 0;
            for (std::int64_t i = 0; i < in; ++i) {
              const double term = x.number(row, i) * weight.number(col, i);
              total += sizes ? std::abs(term) : term;
            }
            return total;
          };
          expect_near(
              y,
              [&](std::int64_t row, std::int64_t col) {
                return sum(row, col, false) + bias[static_cast<std::size_t>(col)] +
                       residual.at(row, col);
              },
              [&](std::int64_t row, std::int64_t col) {
                const double size = sum(row, col, true) + 3;
                return static_cast<double>(in + 8) * 0x1.0p-24 * size + rounding(type) * size;
              });
        }
      }
    }
  }
}

// By all tiles, at any place in them: the same sums in the same order.
void expect_e4m3_bits(std::int64_t most, std::int64_t in, std::int64_t out, std::int64_t group,
                      std::initializer_list<std::int64_t> counts) {
  SCOPED_TRACE(fmt::format("in {} out {} group {}", in, out, group));
  Rng rng(static_cast<std::uint64_t>(in + out + group));
  Codes x(most, in, group);
  x.random(rng);
  const Codes weight = Codes(out, in, group).random(rng);
  TestRows all(most, out, DType::kF32);
  GemmE4m3KernelArgs args;
  args.x = x.as_rows();
  args.weight = weight.weight();
  args.y = all.rows();
  launch_gemm_e4m3(args, nullptr);
  for (const std::int64_t count : counts) {
    const auto first =
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(most - count)));
    args.x = x.as_rows();
    args.x.codes += first * x.stride;
    args.x.scales += first;
    TestRows y(count, out, DType::kF32);
    args.y = y.rows();
    launch_gemm_e4m3(args, nullptr);
    for (std::int64_t row = 0; row < count; ++row)
      for (std::int64_t col = 0; col < out; ++col)
        ASSERT_EQ(y.at(row, col), all.at(first + row, col)) << count << " rows, row " << row;
  }
}

TEST(E4m3Kernels, RowsDoNotDependOnTheBatch) {
  for (const std::int64_t in : {250, 512, 650})
    for (const std::int64_t group : {in, std::int64_t{32}, std::int64_t{128}})
      expect_e4m3_bits(67, in, 35, group, {1, 16, 17, 64});
  expect_e4m3_bits(18, 288, 16897, 128, {2, 17});
}

// Small tiles and large ones, any place in them; and each visit is its row's product with its
// group's weight alone, to the bit.
TEST(E4m3Kernels, GroupedProductsAreThoseOfEachRow) {
  Rng rng(3);
  constexpr std::int64_t kIn = 200;
  constexpr std::int64_t kOut = 140;
  constexpr std::int64_t kVisits = 37;
  for (const std::int64_t group : {kIn, std::int64_t{64}}) {
    Codes x(9, kIn, group);
    x.random(rng);
    std::vector<Codes> weights;
    std::vector<GroupWeight> list;
    for (int i = 0; i < 3; ++i) weights.push_back(Codes(kOut, kIn, group).random(rng));
    for (const Codes& weight : weights)
      list.push_back({weight.codes.data(), weight.scales.data(), nullptr, nullptr});
    std::vector<std::int32_t> x_rows;
    for (std::int64_t i = 0; i < kVisits; ++i)
      x_rows.push_back(static_cast<std::int32_t>(rng.below(9)));
    const std::vector<GroupTile> few = {{2, 0, 16}, {2, 16, 5}, {0, 21, 16}, {0, 0, 0}};
    const std::vector<GroupTile> many = {{2, 0, 21}, {0, 21, 16}, {0, 0, 0}};
    for (const int tile_rows : {kFewTileRows, kManyTileRows}) {
      const std::vector<GroupTile>& tiles = tile_rows == kFewTileRows ? few : many;
      TestRows y(kVisits, kOut, DType::kBf16);
      GemmE4m3KernelArgs args;
      args.x = x.as_rows();
      args.weight = weights[0].weight();
      args.y = y.rows();
      launch_grouped_gemm_e4m3(args,
                               {.tiles = tiles.data(),
                                .tile_count = static_cast<std::int64_t>(tiles.size()),
                                .tile_rows = tile_rows,
                                .x_rows = x_rows.data(),
                                .weights = list.data()},
                               nullptr);
      EXPECT_TRUE(y.intact());
      for (const GroupTile& tile : tiles) {
        for (std::int64_t visit = tile.first; visit < tile.first + tile.count; ++visit) {
          TestRows alone(1, kOut, DType::kBf16);
          const std::int32_t row = x_rows[static_cast<std::size_t>(visit)];
          args.x = x.as_rows();
          args.x.codes += row * x.stride;
          args.x.scales += row;
          args.weight = weights[static_cast<std::size_t>(tile.group)].weight();
          args.y = alone.rows();
          launch_gemm_e4m3(args, nullptr);
          for (std::int64_t col = 0; col < kOut; ++col)
            ASSERT_EQ(y.at(visit, col), alone.at(0, col)) << "visit " << visit << " " << col;
        }
      }
    }
  }
}

}  // namespace
}  // namespace saccade::cuda
