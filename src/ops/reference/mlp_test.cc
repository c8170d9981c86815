// mlp on every instruction set: to the bit what gemm, gated and gemm give, near the reference, and
// the same for a row alone and in company.
#include <algorithm>
#include <cmath>

#include "tests/ops/devices.h"

namespace saccade {
namespace {

using Mlp = EveryCpu;

struct MlpShape {
  std::int64_t in, width, out;
  bool gated = true;
  bool biases = false;
  bool residual = false;
  Activation activation = Activation::kSilu;
};

// The weights of an MLP, as they are stored and as a device packs them.
struct Layer {
  MlpShape shape;
  Matrix in;
  Matrix out;
  Matrix in_bias;
  Matrix out_bias;

  explicit Layer(const MlpShape& s)
      : shape(s),
        in(s.gated ? 2 * s.width : s.width, s.in),
        out(s.out, s.width),
        in_bias(1, in.rows()),
        out_bias(1, s.out) {
    Rng rng(static_cast<std::uint64_t>(s.in * 7919 + s.width * 31 + s.out));
    in.random(rng, 2 / std::sqrt(static_cast<double>(s.in)));
    out.random(rng, 2 / std::sqrt(static_cast<double>(s.width)));
    in.round_to(DType::kBf16);
    out.round_to(DType::kBf16);
    in_bias.random(rng);
    out_bias.random(rng);
  }
};

class PackedLayer {
 public:
  PackedLayer(Layer& layer, const TestDevice& device, DType compute)
      : layer_(layer), device_(device) {
    const StoredMatrix in_part = layer.in.view();
    const StoredMatrix out_part = layer.out.view();
    in_ = (*device).pack({&in_part, 1}, compute);
    out_ = (*device).pack({&out_part, 1}, compute);
  }
  bool rounds() const { return in_->operand_dtype() == DType::kBf16; }

  // y, which holds the residual.
  void mlp(Matrix& x, Matrix& y) const {
    Matrix inner(x.rows(), in_->out());
    const MlpArgs args = args_of(x, inner, y);
    device_->mlp(args);
    EXPECT_TRUE(y.intact() && inner.intact());
  }
  void composed(Matrix& x, Matrix& y) const {
    Matrix inner(x.rows(), in_->out());
    const MlpArgs args = args_of(x, inner, y);
    const View gate = args.inner.col_range(0, out_->in());
    const Activation none = Activation::kNone;
    device_->gemm({.x = args.x,
                   .weight = args.in,
                   .bias = args.in_bias,
                   .activation = layer_.shape.gated ? none : args.activation,
                   .residual = {},
                   .y = args.inner});
    if (layer_.shape.gated)
      device_->gated({gate, args.inner.col_range(out_->in(), in_->out()), args.activation, gate});
    device_->gemm({.x = gate,
                   .weight = args.out,
                   .bias = args.out_bias,
                   .residual = args.residual,
                   .y = args.y});
  }

 private:
  MlpArgs args_of(Matrix& x, Matrix& inner, Matrix& y) const {
    return {.x = x.view(),
            .in = in_.get(),
            .in_bias = layer_.shape.biases ? layer_.in_bias.view() : View(),
            .activation = layer_.shape.activation,
            .out = out_.get(),
            .out_bias = layer_.shape.biases ? layer_.out_bias.view() : View(),
            .residual = layer_.shape.residual ? y.view() : View(),
            .inner = inner.view(),
            .y = y.view()};
  }

  Layer& layer_;
  const TestDevice& device_;
  std::unique_ptr<PackedWeight> in_;
  std::unique_ptr<PackedWeight> out_;
};

Matrix random(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Rng rng(seed);
  Matrix matrix(rows, cols);
  matrix.random(rng);
  return matrix;
}

// Widths that end inside a panel, inside a tile and at neither; depths of one and of many steps.
const MlpShape kMlpShapes[] = {
    {40, 32, 21, true},
    {33, 21, 26, true, true, true},
    {70, 16, 48, true, false, true, Activation::kGeluTanh},
    {1300, 150, 40, true, true, false, Activation::kGeluTanh},
    {96, 700, 30, true, false, true},
    {600, 208, 40, true, true, true},  // whole panels, of which several are multiplied at a time
    {2200, 333, 64, true, true, true},
    {40, 32, 21, false, false, false, Activation::kGeluErf},
    {600, 203, 50, false, true, true, Activation::kQuickGelu},
    {2100, 420, 33, false, true, false, Activation::kRelu},
};

TEST_P(Mlp, IsWhatTheOpsItIsMadeOfGive) {
  const auto cpu = device();
  for (const MlpShape& shape : kMlpShapes) {
    if (slow() && shape.in * shape.width > 100'000) continue;
    Layer layer(shape);
    for (const DType compute : {DType::kF32, DType::kBf16, DType::kI8}) {
      if (compute == DType::kI8 && !(*cpu).multiplies_int8()) continue;
      const PackedLayer packed(layer, cpu, compute);
      for (const std::int64_t rows : {0, 1, 2, 15, 16, 17, 33, 64, 290}) {
        if (slow() && rows > 33) continue;
        SCOPED_TRACE(fmt::format("{} rows, {} to {} to {}, gated {}, {}", rows, shape.in,
                                 shape.width, shape.out, shape.gated, name_of(compute)));
        Matrix x = random(rows, shape.in, 3);
        Matrix y = random(rows, shape.out, 4);
        Matrix want = y;
        packed.mlp(x, y);
        packed.composed(x, want);
        for (std::int64_t row = 0; row < rows; ++row) expect_same_bits(y.row(row), want.row(row));
      }
    }
  }
}

// Each product's own error (gemm_test.cc), and where rows are rounded to bf16 first, 2^-9 of each
// number: by Cauchy and Schwarz u |x| |w| of a sum. What is wrong inside passes an activation,
// which grows it by 1.13 at the most, and the other half of the gate; the second product adds up
// over the width what remains, again at most the norms' product.
TEST_P(Mlp, IsNearTheReference) {
  const auto cpu = device();
  for (const MlpShape& shape : kMlpShapes) {
    if (slow() && shape.in * shape.width > 100'000) continue;
    Layer layer(shape);
    const PackedLayer slow(layer, reference_, DType::kF32);
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      const PackedLayer fast(layer, cpu, compute);
      constexpr std::int64_t kRows = 20;
      Matrix x = random(kRows, shape.in, 5);
      Matrix y = random(kRows, shape.out, 6);
      Matrix want = y;
      fast.mlp(x, y);
      slow.mlp(x, want);
      // Sums of the first product, by the reference.
      Matrix sums(kRows, layer.in.rows());
      const StoredMatrix part = layer.in.view();
      const auto weight = (*reference_).pack({&part, 1}, DType::kF32);
      reference_->gemm({.x = x.view(),
                        .weight = weight.get(),
                        .bias = shape.biases ? layer.in_bias.view() : View(),
                        .residual = {},
                        .y = sums.view()});
      const double unit = fast.rounds() ? 0x1.0p-9 : 0;
      const std::vector<double> rows = x.norms();
      const std::vector<double> inner = layer.in.norms();
      const std::vector<double> outer = layer.out.norms();
      std::vector<double> error(kRows);  // |what is wrong inside|
      std::vector<double> size(kRows);   // |what is inside|
      for (std::int64_t row = 0; row < kRows; ++row) {
        double errors = 0;
        double sizes = 0;
        for (std::int64_t i = 0; i < shape.width; ++i) {
          const auto wrong = [&](std::int64_t at) {
            return (8 * kEpsilon + unit) *
                   (rows[static_cast<std::size_t>(row)] * inner[static_cast<std::size_t>(at)] + 2);
          };
          const std::int64_t up = shape.gated ? shape.width + i : i;
          const double gate = std::abs(sums.at(row, i));
          const double other = shape.gated ? std::abs(sums.at(row, up)) : 1;
          const double off = 1.13 * wrong(i) * (other + (shape.gated ? wrong(up) : 0)) +
                             (shape.gated ? gate * wrong(up) : 0);
          const double value = gate * other + off;
          errors += std::pow(off + (8 * kEpsilon + unit) * value, 2);
          sizes += value * value;
        }
        error[static_cast<std::size_t>(row)] = std::sqrt(errors);
        size[static_cast<std::size_t>(row)] = std::sqrt(sizes);
      }
      SCOPED_TRACE(fmt::format("{} to {} to {}, gated {}, {}", shape.in, shape.width, shape.out,
                               shape.gated, name_of(compute)));
      expect_near(y, want, [&](std::int64_t row, std::int64_t col) {
        const auto at = static_cast<std::size_t>(row);
        return (error[at] + 8 * kEpsilon * size[at]) * outer[static_cast<std::size_t>(col)] +
               8 * kEpsilon * 4;
      });
    }
  }
}

TEST_P(Mlp, RowsDoNotDependOnTheBatchOrThreads) {
  const std::int64_t rows = scaled(530, 20);
  Layer layer({130, 203, 45, true, true, true});
  Matrix x = random(rows, 130, 7);
  const Matrix residual = random(rows, 45, 8);
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    std::vector<std::vector<float>> all;
    for (const int threads : {1, 2, 3}) {
      const auto cpu = device(threads);
      const PackedLayer packed(layer, cpu, compute);
      Matrix y = residual;
      packed.mlp(x, y);
      for (std::int64_t row = 0; row < rows; ++row) {
        if (threads == 1)
          all.push_back(y.row(row));
        else
          expect_same_bits(y.row(row), all[static_cast<std::size_t>(row)]);
      }
      Rng rng(9);
      for (const std::int64_t count : {1, 1, 2, 7, 16, 17, 31, 33, 100, 300}) {
        if (count > rows) continue;
        Matrix some(count, 130);
        Matrix result(count, 45);
        std::vector<std::size_t> picked;
        for (std::int64_t i = 0; i < count; ++i) {
          const auto row = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(rows)));
          picked.push_back(static_cast<std::size_t>(row));
          for (std::int64_t col = 0; col < 130; ++col) some.set(i, col, x.at(row, col));
          for (std::int64_t col = 0; col < 45; ++col) result.set(i, col, residual.at(row, col));
        }
        packed.mlp(some, result);
        for (std::int64_t i = 0; i < count; ++i)
          expect_same_bits(result.row(i), all[picked[static_cast<std::size_t>(i)]]);
      }
    }
  }
}

// y may be x: a row is read before it is written, however many there are.
TEST_P(Mlp, WritesOverItsRows) {
  const auto cpu = device();
  Layer layer({48, 40, 48, true, false, false});
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const PackedLayer packed(layer, cpu, compute);
    Matrix x = random(37, 48, 10);
    Matrix want = random(37, 48, 11);
    packed.mlp(x, want);
    packed.mlp(x, x);
    for (std::int64_t row = 0; row < 37; ++row) expect_same_bits(x.row(row), want.row(row));
  }
}

TEST(MlpShapes, AreChecked) {
  const TestDevice reference(make_reference_device());
  Layer layer({8, 6, 5, false});
  const StoredMatrix in = layer.in.view();
  const StoredMatrix out = layer.out.view();
  const auto packed_in = (*reference).pack({&in, 1}, DType::kF32);
  const auto packed_out = (*reference).pack({&out, 1}, DType::kF32);
  Matrix x(2, 8);
  Matrix inner(2, 6);
  Matrix y(2, 5);
  MlpArgs args{.x = x.view(),
               .in = packed_in.get(),
               .in_bias = {},
               .out = packed_out.get(),
               .out_bias = {},
               .residual = {},
               .inner = inner.view(),
               .y = y.view()};
  args.inner = inner.view().col_range(0, 5);
  EXPECT_DEATH(reference->mlp(args), "inner");
  args.inner = inner.view();
  args.out = packed_in.get();
  EXPECT_DEATH(reference->mlp(args), "an mlp of 6 outputs into 8 inputs");
}

SACCADE_EVERY_CPU(Mlp);

}  // namespace
}  // namespace saccade
