// The kernels of layers of several MLPs on the emulated device: routes against a sort, visits
// counted one by one, grouped products bit by bit against those of one weight, and the whole op in
// bf16 with late streams.
#include "ops/cuda/layers/expert_kernels.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "ops/cuda/emulator/emulated_device.h"
#include "ops/device.h"
#include "ops/readback.h"
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

constexpr float kNeverChosen = -std::numeric_limits<float>::infinity();

struct Routes {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routes routes_of(TestRows& logits, std::int64_t per_row, bool normalise) {
  const auto visits = static_cast<std::size_t>(logits.count() * per_row);
  Routes routes{std::vector<std::int32_t>(visits, -7), std::vector<float>(visits)};
  launch_route({.logits = logits.rows(),
                .per_row = per_row,
                .normalise = normalise,
                .experts = routes.experts.data(),
                .weights = routes.weights.data()},
               nullptr);
  return routes;
}

TEST(ExpertKernels, RoutesToTheLikeliest) {
  Rng rng(1);
  for (const std::int64_t experts : {1, 5, 32, 33, 128}) {
    for (const std::int64_t per_row : {1, 2, 8}) {
      if (per_row > experts) continue;
      for (const bool normalise : {false, true}) {
        TestRows logits(9, experts, DType::kF32);
        logits.random(rng, 4);
        // Rows of equals, of one size whatever the sign of zero, and of what cannot be chosen.
        for (std::int64_t e = 0; e < experts; ++e) {
          logits.set(2, e, static_cast<float>(e % 3));
          logits.set(3, e, e % 2 == 0 ? 0.0f : -0.0f);
          logits.set(4, e, e % 4 == 1 ? kNeverChosen : logits.at(4, e));
        }
        const Routes got = routes_of(logits, per_row, normalise);
        for (std::int64_t row = 0; row < 9; ++row) {
          std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
          std::iota(order.begin(), order.end(), 0);
          std::ranges::stable_sort(
              order, [&](auto a, auto b) { return logits.at(row, a) > logits.at(row, b); });
          double total = 0;
          for (std::int64_t rank = 0; rank < (normalise ? per_row : experts); ++rank)
            total += std::exp(logits.at(row, order[static_cast<std::size_t>(rank)]));
          for (std::int64_t rank = 0; rank < per_row; ++rank) {
            const auto visit = static_cast<std::size_t>(row * per_row + rank);
            const std::int32_t want = order[static_cast<std::size_t>(rank)];
            ASSERT_EQ(got.experts[visit], want) << experts << " row " << row << " rank " << rank;
            ASSERT_NEAR(got.weights[visit], std::exp(logits.at(row, want)) / total, 1e-6);
          }
        }
      }
    }
  }
}

TEST(ExpertKernels, WhatIsNoNumberIsChosenLastAndStaysInItsRow) {
  TestRows logits(3, 4, DType::kF32);
  for (std::int64_t row = 0; row < 3; ++row)
    for (std::int64_t e = 0; e < 4; ++e) logits.set(row, e, static_cast<float>(e));
  logits.set(1, 3, std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t e = 0; e < 4; ++e) logits.set(2, e, std::numeric_limits<float>::quiet_NaN());
  const Routes got = routes_of(logits, 4, false);
  EXPECT_EQ(got.experts, (std::vector<std::int32_t>{3, 2, 1, 0, 2, 1, 0, 3, 0, 1, 2, 3}));
  EXPECT_FALSE(std::isnan(got.weights[0]));
  EXPECT_TRUE(std::isnan(got.weights[4]));
}

TEST(ExpertKernels, SortsVisitsIntoTiles) {
  Rng rng(2);
  for (const std::int64_t count : {1, 3, 40, 300}) {
    for (const std::int64_t rows : {1, 2, 50, 600}) {
      for (const int tile_rows : {kFewTileRows, kManyTileRows}) {
        constexpr std::int64_t kPerRow = 4;
        const std::int64_t visits = rows * kPerRow;
        std::vector<std::int32_t> experts;
        for (std::int64_t i = 0; i < visits; ++i) {  // some have many, some none
          const auto any = static_cast<std::uint64_t>(rng.below(3) == 0 ? count : (count + 9) / 10);
          experts.push_back(static_cast<std::int32_t>(rng.below(any)));
        }
        std::vector<std::int32_t> from(experts.size(), -1);
        std::vector<std::int32_t> places(experts.size(), -1);
        const std::int64_t tile_count = max_tiles(visits, count, tile_rows);
        std::vector<GroupTile> tiles(static_cast<std::size_t>(tile_count), {-1, -1, -1});
        launch_sort_visits({.experts = experts.data(),
                            .visits = visits,
                            .per_row = kPerRow,
                            .count = count,
                            .rows = from.data(),
                            .places = places.data(),
                            .tiles = tiles.data(),
                            .tile_count = tile_count,
                            .tile_rows = tile_rows},
                           nullptr);
        std::vector<std::int32_t> expert_at(experts.size(), -1);
        for (std::size_t i = 0; i < experts.size(); ++i) {
          ASSERT_GE(places[i], 0);
          ASSERT_LT(places[i], visits);
          const auto place = static_cast<std::size_t>(places[i]);
          ASSERT_EQ(expert_at[place], -1) << "two visits at " << place;
          expert_at[place] = experts[i];
          EXPECT_EQ(from[place], static_cast<std::int32_t>(i / kPerRow));
        }
        std::int32_t next = 0;
        bool over = false;
        for (const GroupTile& tile : tiles) {
          over = over || tile.count == 0;
          ASSERT_EQ(tile.count == 0, over);
          if (over) continue;
          ASSERT_EQ(tile.first, next);
          ASSERT_LE(tile.count, tile_rows);
          for (; next < tile.first + tile.count; ++next)
            ASSERT_EQ(expert_at[static_cast<std::size_t>(next)], tile.group);
        }
        EXPECT_EQ(next, visits);
      }
    }
  }
}

// Each visit is, to the bit, the product of its row alone with its group's weight.
TEST(ExpertKernels, GroupedProductsAreThoseOfEachWeight) {
  Rng rng(3);
  const std::vector<GroupTile> few = {{2, 0, 16}, {2, 16, 5}, {0, 21, 1}, {3, 22, 15}, {0, 0, 0}};
  const std::vector<GroupTile> many = {{2, 0, 21}, {0, 21, 1}, {3, 22, 15}, {0, 0, 0}};
  constexpr std::int64_t kVisits = 37;
  for (const auto [x_type, weight_type, y_type] :
       {std::array{DType::kBf16, DType::kBf16, DType::kBf16},
        std::array{DType::kBf16, DType::kBf16, DType::kF32},
        std::array{DType::kF32, DType::kBf16, DType::kF32},
        std::array{DType::kF32, DType::kF32, DType::kF32},
        std::array{DType::kBf16, DType::kF32, DType::kBf16}}) {
    for (const bool odd : {false, true}) {
      for (const bool picked : {false, true}) {
        for (const int tile_rows : {kFewTileRows, kManyTileRows}) {
          SCOPED_TRACE(fmt::format("x {} weight {} y {} odd {} picked {} tile {}", name_of(x_type),
                                   name_of(weight_type), name_of(y_type), odd, picked, tile_rows));
          constexpr std::int64_t kIn = 136;  // two slices
          constexpr std::int64_t kOut = 130;
          std::vector<TestRows> weights;
          std::vector<GroupWeight> list;
          for (int group = 0; group < 4; ++group) {
            weights.emplace_back(kOut, kIn, weight_type);
            weights.back().random(rng);
          }
          for (TestRows& weight : weights)
            list.push_back({weight.rows().data, nullptr, nullptr, nullptr});
          TestRows x(picked ? 11 : kVisits, kIn, x_type, odd);
          x.random(rng);
          std::vector<std::int32_t> x_rows;
          for (std::int64_t i = 0; i < kVisits; ++i)
            x_rows.push_back(picked ? static_cast<std::int32_t>(rng.below(11))
                                    : static_cast<std::int32_t>(i));
          TestRows y(kVisits, kOut, y_type, odd);
          const std::vector<GroupTile>& tiles = tile_rows == kFewTileRows ? few : many;
          GemmKernelArgs args;
          args.x = x.rows();
          args.weight = weights[0].rows();
          args.y = y.rows();
          launch_grouped_gemm(args,
                              {.tiles = tiles.data(),
                               .tile_count = static_cast<std::int64_t>(tiles.size()),
                               .tile_rows = tile_rows,
                               .x_rows = picked ? x_rows.data() : nullptr,
                               .weights = list.data()},
                              nullptr);
          EXPECT_TRUE(y.intact());
          for (const GroupTile& tile : tiles) {
            for (std::int64_t visit = tile.first; visit < tile.first + tile.count; ++visit) {
              TestRows alone(1, kOut, y_type);
              const std::int64_t row = x_rows[static_cast<std::size_t>(visit)];
              args.x = x.rows();
              args.x.data = static_cast<std::byte*>(args.x.data) +
                            static_cast<std::size_t>(row * args.x.stride) * size_of(x_type);
              args.x.rows = 1;
              args.weight = weights[static_cast<std::size_t>(tile.group)].rows();
              args.y = alone.rows();
              launch_gemm(args, nullptr);
              for (std::int64_t col = 0; col < kOut; ++col)
                ASSERT_EQ(y.at(visit, col), alone.at(0, col)) << "visit " << visit << " " << col;
            }
          }
        }
      }
    }
  }
}

TEST(ExpertKernels, CombinesByWeight) {
  Rng rng(4);
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const bool odd : {false, true}) {
      for (const bool add : {false, true}) {
        constexpr std::int64_t kRows = 13;
        constexpr std::int64_t kPerRow = 3;
        constexpr std::int64_t kCols = 40;
        TestRows part(kRows * kPerRow, kCols, type, odd);
        part.random(rng);
        std::vector<std::int32_t> places(kRows * kPerRow);
        std::iota(places.begin(), places.end(), 0);
        for (std::size_t i = places.size(); i > 1; --i)
          std::swap(places[i - 1], places[rng.below(i)]);
        std::vector<float> weights;
        for (std::size_t i = 0; i < places.size(); ++i)
          weights.push_back(static_cast<float>(rng.uniform()));
        TestRows y(kRows, kCols, type, odd);
        y.random(rng);
        const TestRows old = y;
        launch_combine({.part = part.rows(),
                        .places = places.data(),
                        .weights = weights.data(),
                        .per_row = kPerRow,
                        .add = add,
                        .y = y.rows()},
                       nullptr);
        const auto want = [&](std::int64_t row, std::int64_t col) {
          double sum = add ? old.at(row, col) : 0;
          for (std::int64_t i = row * kPerRow; i < (row + 1) * kPerRow; ++i)
            sum += static_cast<double>(weights[static_cast<std::size_t>(i)]) *
                   part.at(places[static_cast<std::size_t>(i)], col);
          return sum;
        };
        expect_near(y, want, [&](std::int64_t row, std::int64_t col) {
          return rounding(type) * std::abs(want(row, col)) + 1e-6;
        });
      }
    }
  }
}

class ExpertsInBf16 : public ::testing::Test {
 protected:
  static constexpr std::int64_t kIn = 40;
  static constexpr std::int64_t kWidth = 24;
  static constexpr std::int64_t kOut = 48;
  static constexpr std::int64_t kExperts = 6;

  static std::vector<float> random(std::int64_t count, Rng& rng, double scale = 1) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(
          to_float(to_bf16(static_cast<float>(scale * (rng.uniform() + rng.uniform() - 1)))));
    return values;
  }

  struct Layer {
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<ExpertWeights> experts;
  };
  static Layer layer(Device& device, std::uint64_t seed) {
    Rng rng(seed);
    Layer made;
    for (std::int64_t e = 0; e < kExperts; ++e) {
      for (const auto& [out, in] : {std::pair{2 * kWidth, kIn}, std::pair{kOut, kWidth}}) {
        std::vector<float> values = random(out * in, rng, 0.4);
        const StoredMatrix part = View(values.data(), DType::kF32, out, in);
        made.packed.push_back(device.pack({&part, 1}, DType::kBf16));
      }
      made.experts.push_back({made.packed[made.packed.size() - 2].get(), made.packed.back().get()});
    }
    return made;
  }

  // Rows [begin, end) of x through a layer.
  static std::vector<float> run(Device& device, const Layer& layer, std::vector<float>& x,
                                std::vector<float>& logits, std::int64_t begin, std::int64_t end) {
    const DType type = device.activation_dtype();
    Stream& stream = device.lane(Lane::kStep);
    const std::int64_t rows = end - begin;
    const auto make = [&](std::int64_t cols, DType of) {
      return *device.allocate(static_cast<std::size_t>(rows * cols) * size_of(of));
    };
    const Buffer x_at = make(kIn, type);
    const Buffer logits_at = make(kExperts, DType::kF32);
    const Buffer gathered = make(kIn, type);
    const Buffer inner = make(2 * kWidth, type);
    const Buffer part = make(kOut, type);
    const Buffer y = make(kOut, type);
    stream.upload(View(x.data() + begin * kIn, DType::kF32, rows, kIn), x_at.view(type, rows, kIn));
    stream.upload(View(logits.data() + begin * kExperts, DType::kF32, rows, kExperts),
                  logits_at.view(DType::kF32, rows, kExperts));
    stream.experts({.x = x_at.view(type, rows, kIn),
                    .logits = logits_at.view(DType::kF32, rows, kExperts),
                    .experts = layer.experts,
                    .per_row = 3,
                    .gathered = gathered.view(type, rows, kIn),
                    .inner = inner.view(type, rows, 2 * kWidth),
                    .part = part.view(type, rows, kOut),
                    .y = y.view(type, rows, kOut)});
    stream.retire();
    Buffer wide = *device.allocate(static_cast<std::size_t>(rows * kOut) * sizeof(float));
    stream.copy(y.view(type, rows, kOut), wide.view(DType::kF32, rows, kOut));
    Buffer staging;
    const View got = *readable(stream, wide.view(DType::kF32, rows, kOut), staging);
    return {got.row<float>(0), got.row<float>(0) + rows * kOut};
  }
};

TEST_F(ExpertsInBf16, AreNearTheReference) {
  const auto reference = make_reference_device();
  Rng rng(7);
  constexpr std::int64_t kRows = 90;  // both tile sizes: 270 visits, and those of one row
  std::vector<float> x = random(kRows * kIn, rng);
  std::vector<float> logits = random(kRows * kExperts, rng, 3);
  for (const std::uint64_t seed : {1, 2}) {
    const auto device = make_emulated_cuda_device({.late = true, .seed = seed}, DType::kBf16);
    for (const std::uint64_t weights : {5, 6}) {  // the second's may lie where the first's lay
      const Layer fast = layer(*device, weights);
      const Layer slow = layer(*reference, weights);
      const std::vector<float> got = run(*device, fast, x, logits, 0, kRows);
      const std::vector<float> want = run(*reference, slow, x, logits, 0, kRows);
      double error = 0;
      double size = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
      }
      EXPECT_LT(std::sqrt(error / size), 6e-3);
      for (const std::int64_t row : {0, 41, 89}) {
        const std::vector<float> alone = run(*device, fast, x, logits, row, row + 1);
        for (std::int64_t col = 0; col < kOut; ++col)
          ASSERT_EQ(alone[static_cast<std::size_t>(col)],
                    got[static_cast<std::size_t>(row * kOut + col)])
              << row << " " << col;
      }
    }
  }
}

}  // namespace
}  // namespace saccade::cuda
