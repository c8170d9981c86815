// The ops that work row by row, on every instruction set against the reference.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tests/ops/devices.h"

namespace saccade {
namespace {

using RowOps = EveryCpu;

const std::vector<std::int64_t> kCols = {1, 3, 8, 15, 16, 17, 64, 100, 1536};

TEST_P(RowOps, NormMatchesReference) {
  const auto cpu = device();
  Rng rng(1);
  for (const std::int64_t rows : {0, 1, 5, 40}) {
    for (const std::int64_t cols : kCols) {
      for (const bool with_add : {false, true}) {
        for (const bool layer_norm : {false, true}) {
          Matrix x(rows, cols);
          Matrix add(rows, cols);
          Matrix weight(1, cols);
          Matrix bias(1, cols);
          x.random(rng, 3);
          add.random(rng, 3);
          weight.random(rng);
          bias.random(rng);
          Matrix x2 = x;
          Matrix out(rows, cols);
          Matrix want(rows, cols);
          NormArgs args;
          args.weight = weight.view();
          args.subtract_mean = layer_norm;
          args.weight_offset = layer_norm ? 0.0f : 1.0f;
          if (layer_norm) args.bias = bias.view();
          if (with_add) args.add = add.view();
          args.x = x2.view();
          args.out = want.view();
          reference_->norm(args);
          args.x = x.view();
          args.out = out.view();
          cpu->norm(args);
          // x and its mean are rounded, relative to |x| <= 10; dividing by the deviation makes
          // that 10 / deviation, and one column alone has a deviation of sqrt(epsilon).
          const double gain = cols == 1 && layer_norm ? 1e3 : cols < 16 && layer_norm ? 1e2 : 10;
          expect_near(out, want, [&](auto, auto) { return 16 * kEpsilon * gain; });
          expect_near(x, x2, [](auto, auto) { return 0.0; });  // the stream itself: one rounding
          if (!layer_norm) {
            args.x = x.view();
            args.add = View();
            args.out = x.view();
            cpu->norm(args);  // in place
            expect_near(x, want, [&](auto, auto) { return 16 * kEpsilon * gain; });
          }
        }
      }
    }
  }
}

// Groups of columns are rows of their own, bit for bit.
TEST_P(RowOps, NormOfGroupsIsTheNormOfEach) {
  const auto cpu = device();
  Rng rng(21);
  constexpr std::int64_t kGroup = 24;
  Matrix x(7, 5 * kGroup);
  Matrix weight(1, 5 * kGroup);
  x.random(rng, 3);
  weight.random(rng);
  Matrix out(7, 5 * kGroup);
  Matrix want(7, 5 * kGroup);
  Matrix apart(7, 5 * kGroup);
  NormArgs args;
  args.x = x.view();
  args.weight = weight.view();
  args.group = kGroup;
  args.out = want.view();
  reference_->norm(args);
  args.out = out.view();
  cpu->norm(args);
  expect_near(out, want, [](auto, auto) { return 16 * kEpsilon * 10; });
  args.group = 0;
  for (std::int64_t begin = 0; begin < 5 * kGroup; begin += kGroup) {
    args.x = x.view().col_range(begin, begin + kGroup);
    args.weight = weight.view().col_range(begin, begin + kGroup);
    args.out = apart.view().col_range(begin, begin + kGroup);
    cpu->norm(args);
  }
  for (std::int64_t row = 0; row < 7; ++row) expect_same_bits(out.row(row), apart.row(row));
}

TEST_P(RowOps, RopeMatchesReference) {
  const auto cpu = device();
  Rng rng(2);
  for (const std::int64_t head_dim : {8, 72, 80, 128, 256}) {
    for (const std::int64_t pairs : {head_dim / 2, head_dim / 4, std::int64_t{3}}) {
      const std::int64_t rows = 9;
      std::vector<std::int32_t> positions;  // of three axes
      for (std::int64_t i = 0; i < 3 * rows; ++i)
        positions.push_back(static_cast<std::int32_t>(rng.below(100000)));
      Matrix inv_freq(2, pairs);
      std::vector<std::int32_t> tables;
      for (std::int64_t row = 0; row < rows; ++row)
        tables.push_back(static_cast<std::int32_t>(rng.below(2)));
      std::vector<std::uint8_t> axis;
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const double falling = -static_cast<double>(pair) / static_cast<double>(pairs);
        inv_freq.set(0, pair, static_cast<float>(std::pow(1e6, falling)));
        inv_freq.set(1, pair, static_cast<float>(std::pow(1e4, falling)));
        axis.push_back(static_cast<std::uint8_t>(rng.below(3)));
      }
      Matrix cos(rows, pairs), sin(rows, pairs), cos2(rows, pairs), sin2(rows, pairs);
      RopeTableArgs table;
      table.positions = cpu->upload(positions);
      table.inv_freq = inv_freq.view();
      if (pairs != 3) {
        table.axis = View(axis.data(), DType::kU8, 1, pairs);
        table.tables = cpu->upload(tables);
      }
      table.scale = 1.25f;
      table.cos = cos.view();
      table.sin = sin.view();
      cpu->rope_table(table);
      table.cos = cos2.view();
      table.sin = sin2.view();
      reference_->rope_table(table);
      // The angle is rounded to f32 by both, so only the functions' own rounding differs.
      expect_near(cos, cos2, [](auto, auto) { return 4 * kEpsilon; });
      expect_near(sin, sin2, [](auto, auto) { return 4 * kEpsilon; });
      Matrix x(rows, 3 * head_dim);
      x.random(rng, 3);
      Matrix want = x;
      cpu->rope({x.view(), head_dim, cos.view(), sin.view()});
      reference_->rope({want.view(), head_dim, cos.view(), sin.view()});
      expect_near(x, want, [](auto, auto) { return 4 * kEpsilon * 10; });
    }
  }
}

// Activations over the whole range where they are neither 0 nor the identity: a few ulp of the
// exact value, plus the rounding of x itself where the function is a difference of near equals.
TEST_P(RowOps, GatedMatchesReference) {
  const auto cpu = device();
  constexpr std::int64_t kPoints = 4001;
  for (int which = 0; which <= static_cast<int>(Activation::kSigmoid); ++which) {
    Matrix gate(3, kPoints);
    Matrix up(3, kPoints);
    for (std::int64_t i = 0; i < kPoints; ++i) {
      const auto x = static_cast<float>(i - kPoints / 2);
      gate.set(0, i, x / 2000 * 12);
      gate.set(1, i, x / 2000 * 0.01f);
      gate.set(2, i, x * 0.1f);
      for (std::int64_t row = 0; row < 3; ++row) up.set(row, i, 1.5f);
    }
    gate.set(2, 5, std::numeric_limits<float>::infinity());
    Matrix out(3, kPoints);
    Matrix want(3, kPoints);
    GatedArgs args{gate.view(), up.view(), static_cast<Activation>(which), out.view()};
    cpu->gated(args);
    args.out = want.view();
    reference_->gated(args);
    EXPECT_EQ(out.at(2, 5), want.at(2, 5));
    out.set(2, 5, 0);
    want.set(2, 5, 0);
    SCOPED_TRACE(fmt::format("activation {}", which));
    expect_near(out, want, [&](std::int64_t row, std::int64_t col) {
      return 8 * kEpsilon * std::abs(want.at(row, col)) +
             3 * kEpsilon * std::min(std::abs(gate.at(row, col)), 6.0f) + 1e-37;
    });
    args.out = gate.view();  // in place
    gate.set(2, 5, 0);
    if (args.activation == Activation::kSigmoid) out.set(2, 5, 0.75f);  // the others are 0 there
    cpu->gated(args);
    expect_near(gate, out, [](auto, auto) { return 0.0; });
  }
}

TEST_P(RowOps, SoftcapIsAccurateTanh) {
  const auto cpu = device();
  constexpr std::int64_t kPoints = 5001;
  Matrix x(2, kPoints);
  for (std::int64_t i = 0; i < kPoints; ++i) {
    x.set(0, i, static_cast<float>(i - kPoints / 2) / 250);
    x.set(1, i, static_cast<float>(i - kPoints / 2) / 1e6f);
  }
  Matrix want = x;
  cpu->softcap(x.view(), 1.0f);
  reference_->softcap(want.view(), 1.0f);
  expect_near(x, want, [&](std::int64_t row, std::int64_t col) {
    return 6 * kEpsilon * std::abs(want.at(row, col));  // 3 ulp
  });
  Matrix logits(1, 300);
  Rng rng(4);
  logits.random(rng, 60);
  Matrix capped = logits;
  cpu->softcap(logits.view(), 30.0f);
  reference_->softcap(capped.view(), 30.0f);
  expect_near(logits, capped, [](auto, auto) { return 8 * kEpsilon * 30; });
}

// NOLINTNEXTLINE(readability-function-size): a sweep over shapes for each op
TEST_P(RowOps, AddMixScatterEmbedCopyMatchReference) {
  const auto cpu = device();
  Rng rng(3);
  for (const std::int64_t cols : kCols) {
    for (const std::int64_t rows : {0, 1, 7, 50}) {
      Matrix y(rows, cols);
      y.random(rng);
      Matrix want = y;
      Matrix x(rows, cols);
      x.random(rng);
      Matrix one(1, cols);
      one.random(rng);
      for (Matrix* term : {&x, &one}) {
        cpu->add(term->view(), y.view(), 0.75f);
        reference_->add(term->view(), want.view(), 0.75f);
      }
      expect_near(y, want, [](auto, auto) { return 8 * kEpsilon; });
      if (rows == 0) continue;

      std::vector<std::int32_t> picks;
      std::vector<float> weights;
      for (int i = 0; i < 12; ++i) {
        picks.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(rows))));
        weights.push_back(static_cast<float>(rng.uniform()));
      }
      for (const DType from : {DType::kF32, DType::kBf16, DType::kF16}) {
        Matrix table(rows, cols, from);
        table.random(rng);
        for (const std::int64_t taps : {1, 4}) {
          Matrix mixed(12 / taps, cols);
          Matrix mixed_want(12 / taps, cols);
          MixRowsArgs mix{table.view(), cpu->upload(picks), cpu->upload(weights), taps,
                          mixed.view()};
          if (taps == 1) mix.weights = {};
          cpu->mix_rows(mix);
          mix.out = mixed_want.view();
          reference_->mix_rows(mix);
          expect_near(mixed, mixed_want, [](auto, auto) { return 16 * kEpsilon; });
        }
      }

      for (const DType from : {DType::kF32, DType::kBf16, DType::kF16}) {
        Matrix table(rows, cols, from);
        table.random(rng, 4);
        Matrix out(12, cols);
        Matrix out_want(12, cols);
        EmbedArgs embed;
        embed.table = table.view();
        embed.ids = cpu->upload(picks);
        embed.scale = 3.5f;
        embed.out = out.view();
        cpu->embed(embed);
        embed.out = out_want.view();
        reference_->embed(embed);
        expect_near(out, out_want, [](auto, auto) { return 0.0; });  // one rounding
        for (const DType compute : {DType::kF32, DType::kBf16}) {
          const StoredMatrix part = table.view();
          const auto packed = (*cpu).pack({&part, 1}, compute);
          const auto twin = (*reference_).pack({&part, 1}, compute);
          EmbedArgs tied;
          tied.ids = cpu->upload(picks);
          tied.packed = packed.get();
          tied.out = out.view();
          cpu->embed(tied);
          tied.packed = twin.get();
          tied.out = out_want.view();
          reference_->embed(tied);
          expect_near(out, out_want, [](auto, auto) { return 0.0; });
        }
        for (const DType to : {DType::kF32, DType::kBf16, DType::kF16}) {
          Matrix copied(rows, cols, to);
          Matrix copied_want(rows, cols, to);
          cpu->copy(table.view(), copied.view());
          reference_->copy(table.view(), copied_want.view());
          expect_near(copied, copied_want, [](auto, auto) { return 0.0; });

          const auto rows_last = static_cast<std::int32_t>(rows - 1);
          std::vector<std::int32_t> places(static_cast<std::size_t>(rows));
          std::iota(places.begin(), places.end(), 2);
          std::shuffle(places.begin(), places.end(), rng);
          Matrix scattered(rows + 4, cols, to);
          scattered.random(rng);
          Matrix scattered_want = scattered;
          places.front() = -1;  // goes nowhere
          CopyRowsArgs moved{.from = table.view(),
                             .from_rows = {},
                             .to = scattered.view(),
                             .to_rows = cpu->upload(places)};
          const auto move = [&] {
            moved.to = scattered.view();
            cpu->copy_rows(moved);
            moved.to = scattered_want.view();
            reference_->copy_rows(moved);
            expect_near(scattered, scattered_want, [](auto, auto) { return 0.0; });
          };
          move();
          if (to == DType::kF32) {
            moved.add = true;
            move();
            moved.add = false;
          }
          moved.from_rows = cpu->upload(std::vector<std::int32_t>(places.size(), rows_last));
          move();
          moved.to_rows = {};
          move();
        }
      }
    }
  }
}

TEST_P(RowOps, ConversionsRoundToNearestAndKeepSpecials) {
  const auto cpu = device();
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               65504.0f,
                               65520.0f,
                               1e30f,
                               -1e30f,
                               1e-40f,
                               6e-8f,
                               5.96e-8f,
                               1.00390625f,
                               1.01171875f,
                               3.3895314e38f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  Rng rng(8);
  while (values.size() < 1000)
    values.push_back(
        static_cast<float>(std::pow(2.0, rng.uniform() * 60 - 30) * (rng.below(2) == 0 ? 1 : -1)));
  const auto cols = static_cast<std::int64_t>(values.size());
  Matrix from(1, cols);
  for (std::int64_t col = 0; col < cols; ++col)
    from.set(0, col, values[static_cast<std::size_t>(col)]);
  for (const DType to : {DType::kF32, DType::kBf16, DType::kF16}) {
    Matrix out(1, cols, to);
    cpu->copy(from.view(), out.view());
    for (std::int64_t col = 0; col < cols; ++col) {
      const float x = values[static_cast<std::size_t>(col)];
      const float want = to == DType::kBf16  ? to_float(to_bf16(x))
                         : to == DType::kF16 ? to_float(to_f16(x))
                                             : x;
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(out.at(0, col)));
      } else {
        ASSERT_EQ(out.at(0, col), want) << x;
      }
    }
  }
}

View bytes_of(std::vector<RowStats>& stats) {
  return View(stats.data(), DType::kU8, static_cast<std::int64_t>(stats.size()), sizeof(RowStats));
}

TEST_P(RowOps, RowStatsMatchReference) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto cpu = device(3);
  Rng rng(6);
  for (const std::int64_t cols : {1, 5, 16, 1000, 8192, 8193, 30000}) {
    Matrix logits(4, cols);
    logits.random(rng, 20);
    for (std::int64_t col = 0; col < cols; ++col) {
      logits.set(1, col, 2.5f);                              // all equal: the first wins
      logits.set(2, col, col + 1 == cols ? 0 : -kInfinity);  // all but one are masked
      logits.set(3, col, -kInfinity);
    }
    logits.set(0, cols / 2, 40.0f);
    logits.set(0, cols - 1, 40.0f);
    std::vector<RowStats> got(4);
    std::vector<RowStats> want(4);
    cpu->row_stats(logits.view(), bytes_of(got));
    reference_->row_stats(logits.view(), bytes_of(want));
    for (std::size_t row = 0; row < 4; ++row) {
      EXPECT_EQ(got[row].argmax, want[row].argmax) << "row " << row << " cols " << cols;
      EXPECT_EQ(got[row].max, want[row].max);
      if (row == 3)
        EXPECT_EQ(got[row].log_sum_exp, -kInfinity);
      else
        EXPECT_NEAR(got[row].log_sum_exp, want[row].log_sum_exp, 64 * kEpsilon);
    }
    if (cols > 5) {
      logits.set(0, 3, std::numeric_limits<float>::quiet_NaN());
      cpu->row_stats(logits.view(), bytes_of(got));
      EXPECT_EQ(got[0].argmax, want[0].argmax);  // NaN never wins, and shows in the sum
      EXPECT_TRUE(std::isnan(got[0].log_sum_exp));
    }
  }
}

TEST_P(RowOps, RowsDoNotDependOnTheBatch) {
  const auto cpu = device(3);
  Rng rng(12);
  Matrix x(64, 1001);
  x.random(rng, 3);
  Matrix weight(1, 1001);
  weight.random(rng);
  Matrix all(64, 1001);
  NormArgs norm;
  norm.x = x.view();
  norm.weight = weight.view();
  norm.subtract_mean = true;
  norm.out = all.view();
  cpu->norm(norm);
  for (std::int64_t row = 0; row < 64; row += 7) {
    Matrix one(1, 1001);
    norm.x = x.view().row_range(row, row + 1);
    norm.out = one.view();
    cpu->norm(norm);
    expect_same_bits(one.row(0), all.row(row));
  }
}

TEST(CpuDevice, RefusesWhatTheMachineOrBuildLacks) {
  const auto unknown = make_cpu_device(1, "avx9");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalid);
  EXPECT_NE(unknown.error().message.find("avx9"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("portable"), std::string::npos);
  EXPECT_FALSE(make_cpu_device(-1).has_value());
  for (const char* isa : {"neon", "dotprod", "avx2", "avxvnni", "avx512", "vnni", "bf16", "amx"}) {
    const auto made = make_cpu_device(1, isa);
    EXPECT_TRUE(made.has_value() || made.error().code == ErrorCode::kUnsupported);
  }
}

TEST(CpuDevice, EnvironmentForcesAnInstructionSet) {
  if (on_cuda()) GTEST_SKIP() << "no test of this device";
  const char* before = std::getenv("SACCADE_CPU");
  const std::string kept = before == nullptr ? "" : before;
  setenv("SACCADE_CPU", "portable", 1);
  EXPECT_NE((*make_cpu_device(1))->description().find("portable"), std::string::npos);
  EXPECT_NE((*make_cpu_device(1, isas_here().back()))->description().find(isas_here().back()),
            std::string::npos);
  setenv("SACCADE_CPU", "mmx", 1);
  const auto wrong = make_cpu_device(1);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message.find("SACCADE_CPU"), std::string::npos);
  if (before == nullptr)
    unsetenv("SACCADE_CPU");
  else
    setenv("SACCADE_CPU", kept.c_str(), 1);
}

SACCADE_EVERY_CPU(RowOps);

}  // namespace
}  // namespace saccade
