// experts on every instruction set against the reference, and bit equality across batches and
// threads.
#include <algorithm>
#include <numeric>

#include "tests/ops/devices.h"

namespace saccade {
namespace {

class Experts : public EveryCpu {
 protected:
  void SetUp() override {
    if (!(*device()).has_experts()) GTEST_SKIP() << GetParam() << " has no experts()";
  }
};

// One layer's experts on a device, and what a call needs besides its rows.
struct ExpertsLayer {
  std::int64_t in, width, out;
  std::vector<Matrix> stored;  // gate_up and down of each
  std::vector<std::unique_ptr<PackedWeight>> packed;
  std::vector<ExpertWeights> experts;

  ExpertsLayer(Device& device, std::int64_t count, std::int64_t inputs, std::int64_t inner,
               std::int64_t outputs, DType compute)
      : in(inputs), width(inner), out(outputs) {
    Rng rng(static_cast<std::uint64_t>(count * 1000 + in));
    for (std::int64_t e = 0; e < count; ++e) {
      Matrix gate_up(2 * width, in);
      gate_up.random(rng, 1 / std::sqrt(static_cast<double>(in)));
      Matrix down(out, width);
      down.random(rng, 1 / std::sqrt(static_cast<double>(width)));
      for (Matrix* matrix : {&gate_up, &down}) {
        const StoredMatrix part = matrix->view();
        packed.push_back(device.pack({&part, 1}, compute));
      }
      experts.push_back({packed[packed.size() - 2].get(), packed.back().get()});
    }
  }
};

struct Call {
  std::int64_t per_row = 1;
  bool normalise = true;
  bool add = true;
  Activation activation = Activation::kSilu;
};

void run_experts(Device& device, const ExpertsLayer& layer, const Call& call, Matrix& x,
                 Matrix& logits, Matrix& y) {
  Matrix gathered(x.rows(), layer.in);
  Matrix inner(x.rows(), 2 * layer.width);
  Matrix part(x.rows(), layer.out);
  device.lane(Lane::kStep)
      .experts({.x = x.view(),
                .logits = logits.view(),
                .experts = layer.experts,
                .per_row = call.per_row,
                .normalise = call.normalise,
                .activation = call.activation,
                .add = call.add,
                .gathered = gathered.view(),
                .inner = inner.view(),
                .part = part.view(),
                .y = y.view()});
  EXPECT_TRUE(gathered.intact() && inner.intact() && part.intact());
}

TEST_P(Experts, MatchReferenceForEveryShape) {
  const auto cpu = device();
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    for (const std::int64_t count : {1, 2, 7, 40}) {
      const ExpertsLayer fast(*cpu, count, 33, 21, 26, compute);
      const ExpertsLayer slow(*reference_, count, 33, 21, 26, compute);
      for (const std::int64_t per_row :
           {std::int64_t{1}, std::int64_t{2}, std::int64_t{6}, count}) {
        for (const std::int64_t rows : {0, 1, 2, 5, 37}) {
          if (per_row > count) continue;
          for (const bool flag : {false, true}) {
            SCOPED_TRACE(
                fmt::format("{} experts, {} a row, {} rows, {}", count, per_row, rows, flag));
            Rng rng(static_cast<std::uint64_t>(count * 77 + per_row * 7 + rows));
            Matrix x(rows, 33);
            x.random(rng);
            Matrix logits(rows, count);
            logits.random(rng, 3);
            Matrix y(rows, 26);
            y.random(rng);
            Matrix want = y;
            const Call call{per_row, flag, !flag};
            run_experts(*cpu, fast, call, x, logits, y);
            run_experts(*reference_, slow, call, x, logits, want);
            // Tiles round the rows and what is inside to bf16.
            const bool rounds = fast.packed[0]->operand_dtype() == DType::kBf16;
            expect_near(y, want, [&](std::int64_t, std::int64_t) { return rounds ? 0.05 : 2e-6; });
          }
        }
      }
    }
  }
}

// Equal logits: the lowest experts. One that leads by far gets all of the weight.
TEST_P(Experts, EqualsGoToTheLowest) {
  const auto cpu = device();
  const ExpertsLayer layer(*cpu, 5, 16, 8, 16, DType::kF32);
  Matrix x(2, 16);
  Rng rng(3);
  x.random(rng);
  const auto with = [&](std::vector<float> row, std::int64_t per_row) {
    Matrix logits(2, 5);
    for (std::int64_t e = 0; e < 5; ++e)
      for (const std::int64_t r : {0, 1}) logits.set(r, e, row[static_cast<std::size_t>(e)]);
    Matrix y(2, 16);
    run_experts(*cpu, layer, {.per_row = per_row, .add = false}, x, logits, y);
    return y.row(1);
  };
  expect_same_bits(with({2, 2, 2, 2, 2}, 2), with({2, 2, -9, 1, 0}, 2));
  expect_same_bits(with({0, 7, 0, 7, 7}, 2), with({0, 7, 0, 7, -1}, 2));
  expect_same_bits(with({-80, 80, -80, -80, -80}, 3), with({-80, 80, -80, -80, -80}, 1));
}

// What is not normalised keeps the share of the experts that were not chosen.
TEST_P(Experts, WeightsAreProbabilities) {
  const auto cpu = device();
  const ExpertsLayer layer(*cpu, 4, 16, 8, 16, DType::kF32);
  Rng rng(4);
  Matrix x(1, 16);
  x.random(rng);
  Matrix logits(1, 4);
  for (std::int64_t e = 0; e < 4; ++e) logits.set(0, e, e == 2 ? 1.0f : 0.0f);
  Matrix whole(1, 16);
  run_experts(*cpu, layer, {.per_row = 1, .normalise = true, .add = false}, x, logits, whole);
  Matrix share(1, 16);
  run_experts(*cpu, layer, {.per_row = 1, .normalise = false, .add = false}, x, logits, share);
  const double probability = std::exp(1.0) / (std::exp(1.0) + 3);
  expect_near(share, whole, [&](std::int64_t, std::int64_t col) {
    return std::abs(whole.at(0, col)) * (1 - probability) + 1e-6;
  });
  for (std::int64_t col = 0; col < 16; ++col)
    EXPECT_NEAR(share.at(0, col), whole.at(0, col) * probability, 1e-6);
}

// A row's bits do not depend on the rows beside it, on their order, nor on the threads.
TEST_P(Experts, RowsAreTheirOwn) {
  for (const DType compute : {DType::kF32, DType::kBf16, DType::kI8}) {
    constexpr std::int64_t kRows = 41;
    const Call call{.per_row = 3};
    Rng rng(5);
    Matrix x(kRows, 96);
    x.random(rng);
    Matrix logits(kRows, 9);
    logits.random(rng, 2);
    Matrix start(kRows, 48);
    start.random(rng);
    std::vector<Matrix> results;
    for (const int threads : {1, 3}) {
      const auto cpu = device(threads);
      const ExpertsLayer layer(*cpu, 9, 96, 40, 48, compute);
      Matrix y = start;
      run_experts(*cpu, layer, call, x, logits, y);
      results.push_back(y);
      for (const std::int64_t row : {0, 7, 40}) {
        Matrix one_x(1, 96);
        Matrix one_logits(1, 9);
        Matrix one_y(1, 48);
        for (std::int64_t col = 0; col < 96; ++col) one_x.set(0, col, x.at(row, col));
        for (std::int64_t col = 0; col < 9; ++col) one_logits.set(0, col, logits.at(row, col));
        for (std::int64_t col = 0; col < 48; ++col) one_y.set(0, col, start.at(row, col));
        run_experts(*cpu, layer, call, one_x, one_logits, one_y);
        expect_same_bits(one_y.row(0), y.row(row));
      }
    }
    for (std::int64_t row = 0; row < kRows; ++row)
      expect_same_bits(results[0].row(row), results[1].row(row));
  }
}

SACCADE_EVERY_CPU(Experts);

}  // namespace
}  // namespace saccade
