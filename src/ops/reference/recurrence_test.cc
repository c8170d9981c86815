// causal_conv and delta_rule on every instruction set against the reference; and bit equality
// however sequences are cut, batched and shared among threads.
#include <algorithm>

#include "tests/ops/devices.h"

namespace saccade {
namespace {

class Recurrence : public EveryCpu {
 protected:
  void SetUp() override {
    if (!(*device()).has_recurrence()) GTEST_SKIP() << GetParam() << " has no recurrence";
  }
};

constexpr std::int64_t kPages = 5;

// --- causal_conv ---

struct Conv {
  std::int64_t taps, cols;
  Activation activation = Activation::kSilu;
};

// NOLINTNEXTLINE(readability-function-size): operands of one op
void run_states(const TestDevice& device, const Conv& conv, Matrix& x, Matrix& weight,
                const std::vector<StateSpan>& spans, Matrix& states, Matrix& out) {
  device->causal_conv({.x = x.view(),
                       .weight = weight.view(),
                       .spans = device->upload(spans),
                       .states = states.view(),
                       .activation = conv.activation,
                       .out = out.view()});
  device->retire();
}

TEST_P(Recurrence, ConvolutionsMatchTheReference) {
  const TestDevice cpu = device();
  for (const std::int64_t taps : {2, 3, 4, 8}) {
    for (const std::int64_t cols : {1, 7, 16, 83, 300}) {
      for (const Activation activation : {Activation::kNone, Activation::kSilu}) {
        SCOPED_TRACE(fmt::format("{} taps, {} columns", taps, cols));
        const Conv conv{taps, cols, activation};
        Rng rng(static_cast<std::uint64_t>(taps * 1000 + cols));
        Matrix x(20, cols);
        x.random(rng);
        Matrix weight(taps, cols);
        weight.random(rng);
        Matrix states(kPages, (taps - 1) * cols);
        states.random(rng);
        Matrix out(20, cols);
        out.random(rng);
        Matrix want_states = states;
        Matrix want = out;
        // One row, none, a first sequence of one, and several; row 19 is nobody's.
        const std::vector<StateSpan> spans = {
            {0, 1, 3, 0}, {1, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 4, 1}, {4, 15, 2, 0}};
        run_states(cpu, conv, x, weight, spans, states, out);
        run_states(reference_, conv, x, weight, spans, want_states, want);
        const auto close = [&](std::int64_t, std::int64_t) { return 4e-6; };
        expect_near(out, want, close);
        expect_near(states, want_states, [](std::int64_t, std::int64_t) { return 0; });
        expect_same_bits(states.row(0), want_states.row(0));
      }
    }
  }
}

TEST_P(Recurrence, ConvolutionsInPlaceGiveTheSameBits) {
  const TestDevice cpu = device();
  const Conv conv{4, 45};
  Rng rng(3);
  Matrix x(9, 45);
  x.random(rng);
  Matrix weight(4, 45);
  weight.random(rng);
  Matrix states(kPages, 3 * 45);
  states.random(rng);
  Matrix out = x;
  Matrix in_place = x;
  Matrix others = states;
  const std::vector<StateSpan> spans = {{0, 2, 0, 0}, {2, 7, 1, 1}};
  run_states(cpu, conv, x, weight, spans, states, out);
  run_states(cpu, conv, in_place, weight, spans, others, in_place);
  for (std::int64_t row = 0; row < 9; ++row) expect_same_bits(in_place.row(row), out.row(row));
  for (std::int64_t page = 0; page < kPages; ++page)
    expect_same_bits(others.row(page), states.row(page));
}

// --- delta_rule ---

struct StateShape {
  std::int64_t key_heads, value_heads, key_dim, value_dim;

  std::int64_t state() const { return value_heads * key_dim * value_dim; }
};

// A step's operands.
struct Operands {
  Matrix q, k, v, a, b, a_log, dt_bias;

  Operands(const StateShape& s, std::int64_t rows, Rng& rng)
      : q(rows, s.key_heads * s.key_dim),
        k(rows, s.key_heads * s.key_dim),
        v(rows, s.value_heads * s.value_dim),
        a(rows, s.value_heads),
        b(rows, s.value_heads),
        a_log(1, s.value_heads),
        dt_bias(1, s.value_heads) {
    for (Matrix* each : {&q, &k, &v}) each->random(rng);
    for (Matrix* each : {&a, &b, &dt_bias}) each->random(rng, 2);
    a_log.fill([&] { return rng.uniform() * 6 - 5; });
  }
  // Rows [begin, begin + count) of another.
  Operands(const Operands& of, std::int64_t begin, std::int64_t count)
      : q(rows_of(of.q, begin, count)),
        k(rows_of(of.k, begin, count)),
        v(rows_of(of.v, begin, count)),
        a(rows_of(of.a, begin, count)),
        b(rows_of(of.b, begin, count)),
        a_log(of.a_log),
        dt_bias(of.dt_bias) {}

 private:
  static Matrix rows_of(const Matrix& of, std::int64_t begin, std::int64_t count) {
    Matrix rows(count, of.cols());
    for (std::int64_t row = 0; row < count; ++row)
      for (std::int64_t col = 0; col < of.cols(); ++col)
        rows.set(row, col, of.at(begin + row, col));
    return rows;
  }
};

void run_states(const TestDevice& device, const StateShape& s, Operands x,
                const std::vector<StateSpan>& spans, Matrix& states, Matrix& out) {
  device->delta_rule({.q = x.q.view(),
                      .k = x.k.view(),
                      .v = x.v.view(),
                      .a = x.a.view(),
                      .b = x.b.view(),
                      .a_log = x.a_log.view(),
                      .dt_bias = x.dt_bias.view(),
                      .spans = device->upload(spans),
                      .states = states.view(),
                      .key_dim = s.key_dim,
                      .value_dim = s.value_dim,
                      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.key_dim))),
                      .out = out.view()});
  device->retire();
  EXPECT_TRUE(x.q.intact() && x.k.intact() && x.v.intact());
}

TEST_P(Recurrence, DeltaRulesMatchTheReference) {
  const TestDevice cpu = device();
  for (const StateShape& s :
       {StateShape{1, 1, 1, 1}, StateShape{2, 4, 24, 20}, StateShape{3, 3, 16, 33},
        StateShape{1, 3, 7, 5}, StateShape{2, 2, 128, 128}, StateShape{1, 2, 65, 17}}) {
    SCOPED_TRACE(
        fmt::format("{} of {} and {} of {}", s.key_heads, s.key_dim, s.value_heads, s.value_dim));
    Rng rng(static_cast<std::uint64_t>(s.state()));
    const Operands x(s, 40, rng);
    Matrix states(kPages, s.state());
    states.random(rng);
    Matrix out(40, s.value_heads * s.value_dim);
    out.random(rng);
    Matrix want_states = states;
    Matrix want = out;
    const std::vector<StateSpan> spans = {
        {0, 1, 3, 0}, {1, 0, 0, 0}, {1, 1, 1, 1}, {2, 4, 4, 1}, {6, 33, 2, 0}};
    run_states(cpu, s, x, spans, states, out);
    run_states(reference_, s, x, spans, want_states, want);
    expect_near(out, want, [](std::int64_t, std::int64_t) { return 1e-5; });
    expect_near(states, want_states, [](std::int64_t, std::int64_t) { return 1e-5; });
    expect_same_bits(states.row(0), want_states.row(0));  // of no row
    expect_same_bits(out.row(39), want.row(39));          // in no span
  }
}

// The definition, by hand: one head of one key and one value.
TEST_P(Recurrence, DeltaRulesAreWhatTheFormulaSays) {
  const TestDevice cpu = device();
  const StateShape s{1, 1, 1, 1};
  Rng rng(1);
  Operands x(s, 2, rng);
  const auto set = [](Matrix& to, float first, float second) {
    to.set(0, 0, first);
    to.set(1, 0, second);
  };
  set(x.q, 3, -2);
  set(x.k, 5, 4);
  set(x.v, 0.75f, 2);
  set(x.a, 0.5f, -1);
  set(x.b, 0, 1);
  x.a_log.set(0, 0, -0.5f);
  x.dt_bias.set(0, 0, 0.25f);
  Matrix states(1, 1);
  states.set(0, 0, 7);  // of whoever had the page before
  Matrix out(2, 1);
  run_states(cpu, s, x, {{0, 2, 0, 1}}, states, out);
  const double first = 0.5 * 0.75;
  const double decay = std::exp(-std::exp(-0.5) * std::log1p(std::exp(-0.75)));
  const double beta = 1 / (1 + std::exp(-1.0));
  const double second = decay * first + beta * (2 - decay * first);
  EXPECT_NEAR(out.at(0, 0), first, 1e-6);
  EXPECT_NEAR(out.at(1, 0), -second, 1e-6);
  EXPECT_NEAR(states.at(0, 0), second, 1e-6);
}

// However a sequence is cut, whatever is beside it and on as many threads as there may be.
TEST_P(Recurrence, ChunksAndNeighboursDoNotChangeABit) {
  constexpr std::int32_t kRows = 37;
  const StateShape s{2, 4, 24, 20};
  const std::int64_t width = s.value_heads * s.value_dim;
  Rng rng(9);
  const Operands x(s, kRows, rng);
  Matrix start(kPages, s.state());
  start.random(rng);
  Matrix whole(kRows, width);
  Matrix whole_states = start;
  run_states(device(1), s, x, {{0, kRows, 2, 1}}, whole_states, whole);
  for (const int threads : {1, 3}) {
    const TestDevice cpu = device(threads);
    for (const std::int64_t chunk : {1, 4, 16}) {
      SCOPED_TRACE(fmt::format("{} threads, chunks of {}", threads, chunk));
      Matrix states = start;
      for (std::int64_t begin = 0; begin < kRows; begin += chunk) {
        const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(chunk, kRows - begin));
        Matrix out(count, width);
        run_states(cpu, s, Operands(x, begin, count), {{0, count, 2, begin == 0 ? 1 : 0}}, states,
                   out);
        for (std::int64_t row = 0; row < count; ++row)
          expect_same_bits(out.row(row), whole.row(begin + row));
      }
      expect_same_bits(states.row(2), whole_states.row(2));
    }
    // Two sequences side by side, the second of which goes on from a page of its own.
    for (const std::int32_t cut : {1, 5, 36}) {
      Matrix first(cut, width);
      Matrix first_states = start;
      run_states(device(1), s, Operands(x, 0, cut), {{0, cut, 2, 1}}, first_states, first);
      Matrix rest(kRows - cut, width);
      run_states(device(1), s, Operands(x, cut, kRows - cut), {{0, kRows - cut, 4, 0}},
                 first_states, rest);
      Matrix states = start;
      Matrix both(kRows, width);
      run_states(cpu, s, x, {{0, cut, 2, 1}, {cut, kRows - cut, 4, 0}}, states, both);
      for (std::int64_t row = 0; row < kRows; ++row)
        expect_same_bits(both.row(row), row < cut ? first.row(row) : rest.row(row - cut));
      for (const std::int64_t page : {2, 4})
        expect_same_bits(states.row(page), first_states.row(page));
    }
  }
}

SACCADE_EVERY_CPU(Recurrence);

}  // namespace
}  // namespace saccade
