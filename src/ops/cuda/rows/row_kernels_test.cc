// Every row-wise kernel on the emulated device against its definition in double precision, aligned
// and not, in f32 and bf16.
#include <algorithm>
#include <numbers>
#include <numeric>

#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

constexpr DType kActivationTypes[] = {DType::kF32, DType::kBf16};
constexpr DType kFloatTypes[] = {DType::kF32, DType::kBf16, DType::kF16};

std::vector<float> random_list(std::int64_t count, Rng& rng) {
  std::vector<float> list;
  for (std::int64_t i = 0; i < count; ++i)
    list.push_back(static_cast<float>(rng.uniform() * 2 - 1));
  return list;
}

float rounded(double x, DType type) {
  const auto narrow = static_cast<float>(x);
  return type == DType::kF32 ? narrow : to_float(to_bf16(narrow));
}

struct NormCase {
  std::int64_t rows, cols, groups;
  DType type;
  bool odd, layer, add;
};

void check_norm(const NormCase& c) {
  SCOPED_TRACE(fmt::format("rows {} cols {} groups {} {} odd {} layer {} add {}", c.rows, c.cols,
                           c.groups, name_of(c.type), c.odd, c.layer, c.add));
  Rng rng(static_cast<std::uint64_t>(c.rows + c.cols));
  TestRows x(c.rows, c.cols * c.groups, c.type, c.odd);
  TestRows add(c.rows, c.cols * c.groups, c.type, c.odd);
  TestRows out(c.rows, c.cols * c.groups, c.type, c.odd);
  x.random(rng, 3);
  add.random(rng, 3);
  const TestRows before = x;
  const std::vector<float> weight = random_list(c.cols, rng);
  const std::vector<float> bias = random_list(c.cols, rng);
  NormKernelArgs args;
  args.x = x.rows();
  args.x.cols = c.cols;
  args.out = out.rows();
  args.out.cols = c.cols;
  if (c.add) {
    args.add = add.rows();
    args.add.cols = c.cols;
  }
  args.groups = c.groups;
  args.weight = weight.data();
  args.bias = c.layer ? bias.data() : nullptr;
  args.offset = c.layer ? 0.0f : 1.0f;
  args.subtract_mean = c.layer;
  launch_norm(args, nullptr);
  if (c.add)
    expect_near(
        x,
        [&](auto row, auto col) {
          return rounded(static_cast<double>(before.at(row, col)) + add.at(row, col), c.type);
        },
        [](auto, auto) { return 0.0; });
  const auto want = [&](std::int64_t row, std::int64_t col) {
    const std::int64_t first = col / c.cols * c.cols;
    double mean = 0;
    for (std::int64_t i = 0; c.layer && i < c.cols; ++i)
      mean += x.at(row, first + i) / static_cast<double>(c.cols);
    double variance = 0;
    for (std::int64_t i = 0; i < c.cols; ++i)
      variance += std::pow(x.at(row, first + i) - mean, 2) / static_cast<double>(c.cols);
    const auto at = static_cast<std::size_t>(col - first);
    return (x.at(row, col) - mean) / std::sqrt(variance + 1e-6) *
               (static_cast<double>(args.offset) + weight[at]) +
           (c.layer ? bias[at] : 0.0f);
  };
  // Of a deviation near 1: x <= 9 and its mean are rounded, then the result.
  expect_near(out, want, [&](auto row, auto col) {
    return 64 * 0x1.0p-24 * 10 + rounding(c.type) * std::abs(want(row, col));
  });
}

TEST(NormKernel, MatchesItsDefinition) {
  for (const DType type : kActivationTypes)
    for (const bool odd : {false, true})
      for (const bool layer : {false, true})
        for (const std::int64_t cols : {16, 40, 72, 129, 640, 2048})
          check_norm({2, cols, 1, type, odd, layer, cols != 40});
}

TEST(NormKernel, OfHeads) {
  for (const DType type : kActivationTypes)
    for (const std::int64_t cols : {64, 80, 128})
      check_norm({3, cols, 5, type, false, false, false});
}

TEST(RopeTableKernel, MatchesItsDefinition) {
  Rng rng(2);
  const std::int64_t rows = 40;
  const std::int64_t pairs = 36;
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < 3 * rows; ++i)
    positions.push_back(static_cast<std::int32_t>(rng.below(200000)));
  TestRows inv_freq(2, pairs, DType::kF32);
  std::vector<std::uint8_t> axis;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    for (std::int64_t table = 0; table < 2; ++table)
      inv_freq.set(table, pair,
                   static_cast<float>(std::pow(1e6 * static_cast<double>(table + 1),
                                               -static_cast<double>(pair) / 36)));
    axis.push_back(static_cast<std::uint8_t>(rng.below(3)));
  }
  std::vector<std::int32_t> tables;
  for (std::int64_t row = 0; row < rows; ++row)
    tables.push_back(static_cast<std::int32_t>(rng.below(2)));
  TestRows cos(rows, pairs, DType::kF32);
  TestRows sin(rows, pairs, DType::kF32, true);
  for (const bool one_table : {true, false}) {
    RopeTableKernelArgs args;
    args.positions = positions.data();
    args.inv_freq = inv_freq.rows();
    args.tables = one_table ? nullptr : tables.data();
    args.axis = axis.data();
    args.scale = 1.25f;
    args.cos = cos.rows();
    args.sin = sin.rows();
    launch_rope_table(args, nullptr);
    const auto angle = [&](std::int64_t row, std::int64_t pair) {
      const std::int64_t a = axis[static_cast<std::size_t>(pair)];
      const auto position = static_cast<float>(positions[static_cast<std::size_t>(a * rows + row)]);
      const std::int64_t table = one_table ? 0 : tables[static_cast<std::size_t>(row)];
      return static_cast<double>(position * inv_freq.at(table, pair));
    };
    const auto tolerance = [](auto, auto) { return 4 * 0x1.0p-24; };
    expect_near(cos, [&](auto r, auto p) { return 1.25 * std::cos(angle(r, p)); }, tolerance);
    expect_near(sin, [&](auto r, auto p) { return 1.25 * std::sin(angle(r, p)); }, tolerance);
  }
}

struct QkvCase {
  std::int64_t head_dim, pairs, q_head_dim;
  DType type, page_type;
  bool norms, pages, odd;
};

// One fused product of q, k and v, as its gemm leaves it.
void check_qkv(const QkvCase& c) {
  SCOPED_TRACE(fmt::format("head_dim {} pairs {} padded {} {} over {} norms {} pages {} odd {}",
                           c.head_dim, c.pairs, c.q_head_dim, name_of(c.type), name_of(c.page_type),
                           c.norms, c.pages, c.odd));
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kKvHeads = 2;
  constexpr std::int64_t kBlockSize = 4;
  Rng rng(8);
  const std::int64_t dim = c.head_dim;
  TestRows x(kRows, (kHeads + 2 * kKvHeads) * dim, c.type, c.odd);
  x.random(rng, 2);
  const TestRows before = x;
  TestRows cos(kRows, std::max<std::int64_t>(c.pairs, 1), DType::kF32);
  TestRows sin(kRows, std::max<std::int64_t>(c.pairs, 1), DType::kF32);
  cos.random(rng);
  sin.random(rng);
  const std::int64_t q_dim = c.q_head_dim > 0 ? c.q_head_dim : dim;
  TestRows q(kRows, kHeads * q_dim, c.type, c.odd);
  const std::vector<float> weights = random_list(dim, rng);
  // Blocks 0 to 5; slots anywhere, no two alike.
  TestRows pool(6, 2 * kKvHeads * kBlockSize * dim, c.page_type);
  std::vector<std::int32_t> slots(6 * kBlockSize);
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), rng);

  QkvKernelArgs args;
  const auto part = [&](std::int64_t first, std::int64_t heads) {
    Rows rows = x.rows();
    rows.data = static_cast<std::byte*>(rows.data) +
                first * dim * static_cast<std::int64_t>(size_of(c.type));
    rows.cols = heads * dim;
    return rows;
  };
  args.q = part(0, kHeads);
  args.k = part(kHeads, kKvHeads);
  args.v = part(kHeads + kKvHeads, kKvHeads);
  args.head_dim = dim;
  if (c.norms) {
    args.q_norm = {weights.data(), 1e-5f, 1};
    args.k_norm = {weights.data(), 1e-5f, 0};
  }
  if (c.pairs > 0) {
    args.cos = cos.rows();
    args.sin = sin.rows();
  }
  args.q_out = q.rows();
  args.q_head_dim = c.q_head_dim;
  const Rows blocks = pool.rows();
  const auto width = static_cast<std::int64_t>(size_of(c.page_type));
  if (c.pages) {
    args.pages = {static_cast<std::byte*>(blocks.data),
                  blocks.stride * width,
                  kBlockSize,
                  kKvHeads,
                  dim,
                  c.page_type};
    args.slots = slots.data();
  } else {
    args.v = {};
    args.k_out = args.k;
  }
  launch_qkv(args, nullptr);

  // Head `head` of the fused row, after its norm.
  const auto normed = [&](std::int64_t row, std::int64_t head, std::int64_t col) {
    const double value = before.at(row, head * dim + col);
    if (!c.norms || head >= kHeads + kKvHeads) return value;
    double sum = 0;
    for (std::int64_t i = 0; i < dim; ++i) sum += std::pow(before.at(row, head * dim + i), 2);
    const double weight = (head < kHeads ? 1.0 : 0.0) + weights[static_cast<std::size_t>(col)];
    return value / std::sqrt(sum / static_cast<double>(dim) + 1e-5) * weight;
  };
  const auto turned = [&](std::int64_t row, std::int64_t head, std::int64_t col) {
    if (head >= kHeads + kKvHeads || col >= 2 * c.pairs) return normed(row, head, col);
    const std::int64_t pair = col % c.pairs;
    const double a = normed(row, head, pair);
    const double b = normed(row, head, pair + c.pairs);
    return col < c.pairs ? a * cos.at(row, pair) - b * sin.at(row, pair)
                         : b * cos.at(row, pair) + a * sin.at(row, pair);
  };
  // The norm's result is rounded, and the rotation's: both of elements below 6.
  const double unit = std::max(rounding(c.type), rounding(c.page_type));
  const auto tolerance = [&](auto, auto) { return unit * 6 * 4; };
  expect_near(
      q,
      [&](auto row, auto col) {
        return col % q_dim < dim ? turned(row, col / q_dim, col % q_dim) : 0.0;
      },
      tolerance);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t head = 0; head < (c.pages ? 2 : 1) * kKvHeads; ++head) {
      for (std::int64_t col = 0; col < dim; ++col) {
        const std::int32_t slot = slots[static_cast<std::size_t>(row)];
        const double got = c.pages ? pool.at(slot / kBlockSize,
                                             (head * kBlockSize + slot % kBlockSize) * dim + col)
                                   : x.at(row, (kHeads + head) * dim + col);
        ASSERT_NEAR(got, turned(row, kHeads + head, col), unit * 6 * 4)
            << "row " << row << " head " << head << " col " << col;
      }
    }
  }
  EXPECT_TRUE(pool.intact());
  EXPECT_TRUE(x.intact());
}

TEST(QkvKernel, MatchesItsParts) {
  for (const DType type : kActivationTypes) {
    for (const bool odd : {false, true}) {
      check_qkv({64, 32, 0, type, type, false, true, odd});
      check_qkv({128, 64, 0, type, DType::kBf16, true, true, odd});
      check_qkv({80, 20, 128, type, DType::kF16, false, true, odd});
      check_qkv({72, 36, 80, type, type, true, false, odd});
      check_qkv({96, 0, 128, type, type, true, true, odd});
    }
  }
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return x;
}

TEST(GatedKernel, EveryActivationOverItsRange) {
  constexpr std::int64_t kPoints = 800;
  for (int which = 0; which <= static_cast<int>(Activation::kSigmoid); ++which) {
    SCOPED_TRACE(fmt::format("activation {}", which));
    const auto activation = static_cast<Activation>(which);
    for (const DType type : kActivationTypes) {
      TestRows gate(2, kPoints, type, type == DType::kF32);
      TestRows up(2, kPoints, type);
      TestRows out(2, kPoints, type);
      for (std::int64_t i = 0; i < kPoints; ++i) {
        const auto x = static_cast<float>(i - kPoints / 2);
        gate.set(0, i, x / 400 * 12);
        gate.set(1, i, x * 0.25f);
        up.set(0, i, 1.5f);
        up.set(1, i, -0.5f);
      }
      GatedKernelArgs args;
      args.gate = gate.rows();
      args.up = up.rows();
      args.activation = activation;
      args.out = out.rows();
      launch_gated(args, nullptr);
      const auto want = [&](auto row, auto col) {
        return activated(activation, gate.at(row, col)) * up.at(row, col);
      };
      // Far out the functions meet 0 or x: e^-x of a rounded product there is off by its size.
      expect_near(out, want, [&](auto row, auto col) {
        const double x = std::abs(gate.at(row, col));
        return (rounding(type) + (8 + 4 * x) * 0x1.0p-24) * std::abs(want(row, col)) +
               3 * 0x1.0p-24 * std::min(x, 6.0) + 1e-37;
      });
    }
  }
}

TEST(GatedKernel, BiasAndResidualWithoutAGate) {
  Rng rng(4);
  TestRows x(5, 48, DType::kBf16);
  x.random(rng, 3);
  TestRows residual(5, 48, DType::kBf16);
  residual.random(rng);
  const TestRows kept = residual;
  const std::vector<float> bias = random_list(48, rng);
  GatedKernelArgs args;
  args.gate = x.rows();
  args.bias = bias.data();
  args.residual = residual.rows();
  args.activation = Activation::kGeluTanh;
  args.out = residual.rows();
  launch_gated(args, nullptr);
  const auto want = [&](auto row, auto col) {
    const double sum = static_cast<double>(x.at(row, col)) + bias[static_cast<std::size_t>(col)];
    return activated(Activation::kGeluTanh, sum) + kept.at(row, col);
  };
  expect_near(residual, want, [&](auto row, auto col) {
    return rounding(DType::kBf16) * std::abs(want(row, col)) + 1e-5;
  });
}

TEST(EmbedKernel, TablesSampledTokensAndImages) {
  Rng rng(6);
  for (const DType from : kFloatTypes) {
    for (const DType to : kActivationTypes) {
      for (const std::int64_t cols : {8, 33}) {
        TestRows table(20, cols, from, cols == 33);
        table.random(rng, 4);
        TestRows images(3, cols, to);
        images.random(rng);
        const std::vector<std::int32_t> ids = {3, -1, 19, -3, 0, 7};
        const std::vector<std::int32_t> last = {11, 12, 13};
        const std::vector<std::int32_t> image_rows = {-1, -1, -1, -1, 2, 0};
        const std::vector<std::int64_t> wanted = {3, 11, 19, 13};
        TestRows out(6, cols, to);
        EmbedKernelArgs args;
        args.table = table.rows();
        args.ids = ids.data();
        args.last_token = last.data();
        args.image_rows = image_rows.data();
        args.images = images.rows();
        args.scale = 3.5f;
        args.out = out.rows();
        launch_embed(args, nullptr);
        expect_near(
            out,
            [&](auto row, auto col) {
              if (row >= 4) return images.at(row == 4 ? 2 : 0, col);
              return rounded(
                  static_cast<double>(table.at(wanted[static_cast<std::size_t>(row)], col)) * 3.5,
                  to);
            },
            [](auto, auto) { return 0.0; });
      }
    }
  }
}

TEST(RowKernels, MixCopyAndAdd) {
  Rng rng(3);
  for (const DType from : kFloatTypes) {
    for (const DType to : kActivationTypes) {
      for (const std::int64_t cols : {8, 40, 67}) {
        TestRows x(7, cols, from, cols == 67);
        x.random(rng);
        std::vector<std::int32_t> picks;
        for (int i = 0; i < 12; ++i) picks.push_back(static_cast<std::int32_t>(rng.below(7)));
        const std::vector<float> weights = random_list(12, rng);
        TestRows mixed(3, cols, to);
        launch_mix_rows({x.rows(), picks.data(), weights.data(), 4, mixed.rows()}, nullptr);
        expect_near(
            mixed,
            [&](auto row, auto col) {
              double sum = 0;
              for (std::size_t tap = 0; tap < 4; ++tap)
                sum += static_cast<double>(weights[static_cast<std::size_t>(row) * 4 + tap]) *
                       x.at(picks[static_cast<std::size_t>(row) * 4 + tap], col);
              return sum;
            },
            [&](auto, auto) { return 16 * 0x1.0p-24 + 6 * rounding(to); });

        const std::vector<std::int32_t> from_rows = {6, 0, 3};
        const std::vector<std::int32_t> to_rows = {1, -1, 4};
        for (const bool add : {false, true}) {
          TestRows y(5, cols, to);
          y.random(rng);
          const TestRows before = y;
          CopyRowsKernelArgs copy;
          copy.from = x.rows();
          copy.from_rows = from_rows.data();
          copy.to = y.rows();
          copy.to_rows = to_rows.data();
          copy.count = 3;
          copy.add = add;
          launch_copy_rows(copy, nullptr);
          expect_near(
              y,
              [&](auto row, auto col) {
                if (row != 1 && row != 4) return before.at(row, col);
                const float value = x.at(row == 1 ? 6 : 3, col);
                return rounded(static_cast<double>(add ? before.at(row, col) : 0.0f) + value, to);
              },
              [](auto, auto) { return 0.0; });
        }

        TestRows y(7, cols, to);
        for (const std::int64_t rows : {1, 7}) {
          y.random(rng);
          const TestRows before = y;
          Rows term = x.rows();
          term.rows = rows;
          launch_add({term, y.rows(), 0.75f}, nullptr);
          expect_near(
              y,
              [&](auto row, auto col) {
                return before.at(row, col) +
                       0.75 * static_cast<double>(x.at(rows == 1 ? 0 : row, col));
              },
              [&](auto, auto) { return 8 * 0x1.0p-24 + 3 * rounding(to); });
        }
      }
    }
  }
}

TEST(RowKernels, ConversionsRoundToNearestAndKeepSpecials) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f,          -0.0f,
                               65504.0f,      65520.0f,
                               1e30f,         -1e30f,
                               1e-40f,        6e-8f,
                               1.00390625f,   1.01171875f,
                               3.3895314e38f, kInfinity,
                               -kInfinity,    std::numeric_limits<float>::quiet_NaN()};
  const auto cols = static_cast<std::int64_t>(values.size());
  TestRows from(1, cols, DType::kF32);
  for (std::int64_t col = 0; col < cols; ++col)
    from.set(0, col, values[static_cast<std::size_t>(col)]);
  for (const DType to : kFloatTypes) {
    TestRows out(1, cols, to);
    CopyRowsKernelArgs args;
    args.from = from.rows();
    args.to = out.rows();
    args.count = 1;
    launch_copy_rows(args, nullptr);
    for (std::int64_t col = 0; col < cols; ++col) {
      const float x = values[static_cast<std::size_t>(col)];
      const float want = to == DType::kBf16  ? to_float(to_bf16(x))
                         : to == DType::kF16 ? to_float(to_f16(x))
                                             : x;
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(out.at(0, col)));
      else
        EXPECT_EQ(out.at(0, col), want) << x;
    }
  }
}

TEST(RowKernels, Softcap) {
  for (const DType type : kActivationTypes) {
    TestRows x(2, 300, type, type == DType::kF32);
    Rng rng(4);
    x.random(rng, 60);
    const TestRows before = x;
    launch_softcap({x.rows(), 30.0f}, nullptr);
    expect_near(
        x,
        [&](auto row, auto col) {
          return 30 * std::tanh(static_cast<double>(before.at(row, col)) / 30);
        },
        [&](auto, auto) { return 30 * (8 * 0x1.0p-24 + rounding(type)); });
  }
}

TEST(RowStatsKernel, LargestAndLogSumExp) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Rng rng(6);
  for (const std::int64_t cols : {1, 5, 1000, 1025, 9000}) {
    for (const DType type : kActivationTypes) {
      TestRows logits(5, cols, type, true);
      logits.random(rng, 20);
      for (std::int64_t col = 0; col < cols; ++col) {
        logits.set(1, col, 2.5f);
        logits.set(2, col, col + 1 == cols ? 0 : -kInfinity);
        logits.set(3, col, -kInfinity);
      }
      logits.set(0, cols / 2, 40.0f);
      logits.set(0, cols - 1, 40.0f);
      logits.set(4, cols / 3, 50.0f);
      if (cols > 5) logits.set(4, 3, std::numeric_limits<float>::quiet_NaN());
      std::vector<RowStatsEntry> got(5);
      launch_row_stats({logits.rows(), got.data()}, nullptr);
      const std::int32_t argmax[] = {static_cast<std::int32_t>(cols / 2), 0,
                                     static_cast<std::int32_t>(cols - 1), 0,
                                     static_cast<std::int32_t>(cols / 3)};
      const float max[] = {40, 2.5f, 0, -kInfinity, 50};
      for (std::size_t row = 0; row < 5; ++row) {
        EXPECT_EQ(got[row].argmax, argmax[row]) << "row " << row << " cols " << cols;
        EXPECT_EQ(got[row].max, max[row]);
        double total = 0;
        for (std::int64_t col = 0; col < cols; ++col)
          total += std::exp(static_cast<double>(logits.at(static_cast<std::int64_t>(row), col)) -
                            max[row]);
        if (row == 3)
          EXPECT_EQ(got[row].log_sum_exp, -kInfinity);
        else if (row == 4 && cols > 5)
          EXPECT_TRUE(std::isnan(got[row].log_sum_exp));
        else
          EXPECT_NEAR(got[row].log_sum_exp, max[row] + std::log(total), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace saccade::cuda
