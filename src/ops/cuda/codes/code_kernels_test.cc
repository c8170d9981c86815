// The kernels of weights that are kept as codes on the emulated device: rows rounded as
// int8_rows.h defines it, exact sums, and rows that do not know of each other.
#include "ops/cuda/codes/code_kernels.h"

#include "ops/formats/int8_rows.h"
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

// Codes in the memory of the emulated device, with their scales.
struct Bytes {
  std::int64_t rows, cols, stride;
  std::vector<std::int8_t> codes;
  std::vector<float> scales;

  Bytes(std::int64_t row_count, std::int64_t col_count)
      : rows(row_count),
        cols(col_count),
        stride((col_count + 15) / 16 * 16),
        codes(static_cast<std::size_t>(rows * stride)),
        scales(static_cast<std::size_t>(rows)) {}
  Bytes& random(Rng& rng) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col)
        codes[at(row, col)] = static_cast<std::int8_t>(static_cast<int>(rng.below(255)) - 127);
      scales[static_cast<std::size_t>(row)] = static_cast<float>(0.001 + rng.uniform());
    }
    return *this;
  }
  std::size_t at(std::int64_t row, std::int64_t col) const {
    return static_cast<std::size_t>(row * stride + col);
  }
  CodedRows weight() const {
    CodedRows made;
    made.codes = reinterpret_cast<const std::byte*>(codes.data());
    made.rows = rows;
    made.cols = cols;
    made.stride = stride;
    made.scales = scales.data();
    return made;
  }
};

TEST(CodeKernels, RowsAreRoundedAsDefined) {
  Rng rng(1);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const bool odd : {false, true}) {
      for (const std::int64_t cols : {1, 4, 15, 64, 600, 1030}) {
        TestRows x(6, cols, type, odd);
        x.random(rng, 3);
        for (std::int64_t col = 0; col < cols; ++col) {
          x.set(1, col, 0);
          x.set(2, col, static_cast<float>(col % 255 - 127) + 0.5F);
          x.set(3, col, x.at(0, col) * 1e-33F);
        }
        x.set(2, 0, 127);
        x.set(4, cols - 1, -std::numeric_limits<float>::infinity());
        x.set(5, cols / 2, std::numeric_limits<float>::quiet_NaN());
        const std::int64_t stride = (cols + 15) / 16 * 16;
        std::vector<std::int8_t> codes(static_cast<std::size_t>(6 * stride), 99);
        std::vector<float> scales(6);
        launch_round_rows(
            {.x = x.rows(), .codes = codes.data(), .stride = stride, .scales = scales.data()},
            nullptr);
        for (std::int64_t row = 0; row < 6; ++row) {
          std::vector<float> values;
          for (std::int64_t col = 0; col < cols; ++col) values.push_back(x.at(row, col));
          std::vector<std::int8_t> want(static_cast<std::size_t>(stride));
          const float scale =
              round_activations(values, std::span(want).first(static_cast<std::size_t>(cols)));
          EXPECT_EQ(std::isnan(scale), std::isnan(scales[static_cast<std::size_t>(row)]));
          if (!std::isnan(scale)) {
            EXPECT_EQ(scales[static_cast<std::size_t>(row)], scale);
          }
          for (std::int64_t col = 0; col < stride; ++col)
            ASSERT_EQ(codes[static_cast<std::size_t>(row * stride + col)],
                      want[static_cast<std::size_t>(col)])
                << "row " << row << " col " << col;
        }
      }
    }
  }
}

// Exactly: one rounding at each step after the sum.
TEST(CodeKernels, ProductsOfBytesAreExact) {
  Rng rng(2);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const std::int64_t rows : {1, 17, 70}) {
      for (const std::int64_t in : {1, 33, 64, 200}) {
        constexpr std::int64_t kOut = 37;
        const Bytes x = Bytes(rows, in).random(rng);
        const Bytes weight = Bytes(kOut, in).random(rng);
        TestRows y(rows, kOut, type, in == 33);
        y.random(rng);
        const TestRows residual = y;
        std::vector<float> bias;
        for (std::int64_t i = 0; i < kOut; ++i) bias.push_back(static_cast<float>(rng.uniform()));
        GemmBytesKernelArgs args;
        args.x = x.codes.data();
        args.x_stride = x.stride;
        args.x_scales = x.scales.data();
        args.weight = weight.weight();
        args.bias = bias.data();
        args.residual = y.rows();
        args.y = y.rows();
        launch_gemm_bytes(args, nullptr);
        expect_near(
            y,
            [&](std::int64_t row, std::int64_t col) {
              std::int32_t sum = 0;
              for (std::int64_t i = 0; i < in; ++i)
                sum += x.codes[x.at(row, i)] * weight.codes[weight.at(col, i)];
              float value = static_cast<float>(sum) * weight.scales[static_cast<std::size_t>(col)];
              value *= x.scales[static_cast<std::size_t>(row)];
              value += bias[static_cast<std::size_t>(col)];
              value += residual.at(row, col);
              return type == DType::kF32 ? value : to_float(to_bf16(value));
            },
            [](std::int64_t, std::int64_t) { return 0.0; });
      }
    }
  }
}

// Each visit is its row's product with its group's weight alone, to the bit.
TEST(CodeKernels, GroupedProductsOfBytes) {
  Rng rng(3);
  constexpr std::int64_t kIn = 50;
  constexpr std::int64_t kOut = 140;
  constexpr std::int64_t kVisits = 37;
  const Bytes x = Bytes(9, kIn).random(rng);
  std::vector<Bytes> weights;
  std::vector<GroupWeight> list;
  for (int group = 0; group < 3; ++group) weights.push_back(Bytes(kOut, kIn).random(rng));
  for (const Bytes& weight : weights)
    list.push_back({weight.codes.data(), weight.scales.data(), nullptr, nullptr});
  std::vector<std::int32_t> x_rows;
  for (std::int64_t i = 0; i < kVisits; ++i)
    x_rows.push_back(static_cast<std::int32_t>(rng.below(9)));
  const std::vector<GroupTile> few = {{2, 0, 16}, {2, 16, 5}, {0, 21, 16}, {0, 0, 0}};
  const std::vector<GroupTile> many = {{2, 0, 21}, {0, 21, 16}, {0, 0, 0}};
  for (const int tile_rows : {kFewTileRows, kManyTileRows}) {
    const std::vector<GroupTile>& tiles = tile_rows == kFewTileRows ? few : many;
    TestRows y(kVisits, kOut, DType::kBf16);
    GemmBytesKernelArgs args;
    args.x = x.codes.data();
    args.x_stride = x.stride;
    args.x_scales = x.scales.data();
    args.weight = weights[0].weight();
    args.y = y.rows();
    launch_grouped_gemm_bytes(args,
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
        args.x = x.codes.data() + x.at(row, 0);
        args.x_scales = x.scales.data() + row;
        args.weight = weights[static_cast<std::size_t>(tile.group)].weight();
        args.y = alone.rows();
        launch_gemm_bytes(args, nullptr);
        for (std::int64_t col = 0; col < kOut; ++col)
          ASSERT_EQ(y.at(visit, col), alone.at(0, col)) << "visit " << visit << " " << col;
      }
    }
  }
}

TEST(CodeKernels, EmbedsCodes) {
  Rng rng(4);
  const Bytes table = Bytes(11, 70).random(rng);
  const std::vector<std::int32_t> ids = {3, -1, 10, 0, -2};
  const std::vector<std::int32_t> last = {7, 3};
  for (const DType type : {DType::kF32, DType::kBf16}) {
    TestRows out(5, 70, type, true);
    launch_embed_codes({.table = table.weight(),
                        .ids = ids.data(),
                        .last_token = last.data(),
                        .scale = 3,
                        .out = out.rows()},
                       nullptr);
    expect_near(
        out,
        [&](std::int64_t row, std::int64_t col) {
          const std::int32_t given = ids[static_cast<std::size_t>(row)];
          const std::int32_t id = given >= 0 ? given : last[static_cast<std::size_t>(-1 - given)];
          const float value = static_cast<float>(table.codes[table.at(id, col)]) *
                              table.scales[static_cast<std::size_t>(id)] * 3;
          return type == DType::kF32 ? value : to_float(to_bf16(value));
        },
        [](std::int64_t, std::int64_t) { return 0.0; });
  }
}

}  // namespace
}  // namespace saccade::cuda
