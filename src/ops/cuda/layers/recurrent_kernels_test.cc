// The kernels of layers that keep a state, on the emulated device: against their definitions in
// double precision over random shapes, aligned and not, in f32 and bf16; the same bits however
// sequences are cut and batched; and the whole layer's ops in bf16 with late streams.
#include "ops/cuda/layers/recurrent_kernels.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ops/cuda/emulator/emulated_device.h"
#include "ops/cuda/emulator/emulator.h"
#include "ops/device.h"
#include "ops/readback.h"
#include "tests/ops/cuda_rows.h"

namespace saccade::cuda {
namespace {

constexpr double kUnit = 0x1.0p-24;  // half an ulp of 1 in f32
constexpr DType kRecurrentTypes[] = {DType::kF32, DType::kBf16};
constexpr std::int64_t kPages = 7;

// Sequences of any lengths, some of them empty, on pages that differ; a row now and then in none.
// Page 0 is nobody's.
struct Spans {
  std::vector<StateSpanEntry> list;
  std::int64_t rows = 0;

  Spans(Rng& rng, std::uint64_t longest) {
    std::vector<std::int32_t> pages;
    for (std::int32_t page = 1; page < kPages; ++page) pages.push_back(page);
    std::shuffle(pages.begin(), pages.end(), rng);
    pages.resize(1 + rng.below(kPages - 1));
    for (const std::int32_t page : pages) {
      rows += rng.below(4) == 0 ? 1 : 0;
      const std::uint64_t count =
          rng.below(3) == 0 ? 1 : (rng.below(6) == 0 ? 0 : rng.below(longest));
      list.push_back({static_cast<std::int32_t>(rows), static_cast<std::int32_t>(count), page,
                      rng.below(2) == 0 ? 1 : 0});
      rows += static_cast<std::int64_t>(count);
    }
    rows += 1;
  }
};

void expect_same(const TestRows& got, const TestRows& want, std::int64_t row,
                 std::int64_t want_row) {
  for (std::int64_t col = 0; col < got.cols(); ++col)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got.at(row, col)),
              std::bit_cast<std::uint32_t>(want.at(want_row, col)))
        << "row " << row << " col " << col << ": " << got.at(row, col) << " and "
        << want.at(want_row, col);
}

// --- causal_conv ---

struct ConvCase {
  std::int64_t taps, cols;
  DType type;
  bool odd;
  bool in_place = false;
  Activation activation = Activation::kSilu;
};

void check_conv(const ConvCase& c, std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("{} taps, {} columns, {}, odd {}, in place {}, seed {}", c.taps, c.cols,
                           name_of(c.type), c.odd, c.in_place, seed));
  Rng rng(seed);
  emulator::seed(seed);
  const Spans spans(rng, 80);  // some go past what is on its way at once
  TestRows x(spans.rows, c.cols, c.type, c.odd);
  x.random(rng, 2);
  TestRows weight(c.taps, c.cols, DType::kF32, c.odd);
  weight.random(rng);
  TestRows states(kPages, (c.taps - 1) * c.cols, DType::kF32, c.odd);
  states.random(rng);
  TestRows out(spans.rows, c.cols, c.type, c.odd);
  out.random(rng);
  const TestRows before = x;
  const TestRows old = c.in_place ? x : out;
  const TestRows old_states = states;
  launch_causal_conv({.x = x.rows(),
                      .weight = weight.rows(),
                      .spans = spans.list.data(),
                      .span_count = std::ssize(spans.list),
                      .states = states.rows(),
                      .activation = c.activation,
                      .out = c.in_place ? x.rows() : out.rows()},
                     nullptr);

  // Of row `at` of a sequence, counted from its first in this call; below 0: what was kept.
  const auto row_of = [&](const StateSpanEntry& span, std::int64_t at, std::int64_t col) {
    if (at >= 0) return before.at(span.row_begin + at, col);
    return span.fresh != 0 ? 0.0f : old_states.at(span.page, (c.taps - 1 + at) * c.cols + col);
  };
  const auto span_of = [&](std::int64_t row) -> const StateSpanEntry* {
    for (const StateSpanEntry& span : spans.list)
      if (row >= span.row_begin && row < span.row_begin + span.row_count) return &span;
    return nullptr;
  };
  const auto sum_of = [&](std::int64_t row, std::int64_t col, bool sizes) {
    const StateSpanEntry& span = *span_of(row);
    double sum = 0;
    for (std::int64_t tap = 0; tap < c.taps; ++tap) {
      const double term = static_cast<double>(weight.at(tap, col)) *
                          row_of(span, row - span.row_begin - (c.taps - 1) + tap, col);
      sum += sizes ? std::abs(term) : term;
    }
    return sum;
  };
  const auto want = [&](std::int64_t row, std::int64_t col) -> double {
    if (span_of(row) == nullptr) return old.at(row, col);
    const double sum = sum_of(row, col, false);
    return c.activation == Activation::kSilu ? sum / (1 + std::exp(-sum)) : sum;
  };
  // The sum's roundings, through a function of slope 1.1 at most; the function's own; the result's.
  expect_near(c.in_place ? x : out, want, [&](std::int64_t row, std::int64_t col) -> double {
    if (span_of(row) == nullptr) return 0;
    const double sizes = sum_of(row, col, true);
    return 1.1 * static_cast<double>(c.taps + 1) * kUnit * sizes +
           (rounding(c.type) + (12 + 4 * sizes) * kUnit) * std::abs(want(row, col)) + 1e-37;
  });
  expect_near(
      states,
      [&](std::int64_t page, std::int64_t at) -> double {
        for (const StateSpanEntry& span : spans.list)
          if (span.page == page && span.row_count > 0)
            return row_of(span, span.row_count - (c.taps - 1) + at / c.cols, at % c.cols);
        return old_states.at(page, at);
      },
      [](auto, auto) { return 0.0; });
}

TEST(CausalConvKernel, MatchesItsDefinition) {
  std::uint64_t seed = 0;
  for (const DType type : kRecurrentTypes) {
    for (std::int64_t taps = 2; taps <= 8; ++taps)
      check_conv({taps, 1 + 37 * taps, type, taps % 2 == 0}, ++seed);
    for (const std::int64_t cols : {1, 127, 128, 129, 300})
      check_conv({4, cols, type, cols % 2 == 1}, ++seed);
    for (const bool in_place : {false, true})
      for (const Activation activation : {Activation::kNone, Activation::kSilu})
        check_conv({4, 144, type, in_place, in_place, activation}, ++seed);
  }
}

// --- delta_rule ---

struct DeltaShape {
  std::int64_t key_heads, heads, key_dim, value_dim;

  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return heads * value_dim; }
  std::int64_t state() const { return values() * key_dim; }
  std::string name() const {
    return fmt::format("{} of {} and {} of {}", key_heads, key_dim, heads, value_dim);
  }
};

struct DeltaRows {
  TestRows q, k, v, a, b;
  std::vector<float> a_log, dt_bias;

  // `size`: of q and k, whose squares near epsilon when it is small.
  DeltaRows(const DeltaShape& s, std::int64_t rows, DType type, bool odd, Rng& rng, double size)
      : q(rows, s.keys(), type, odd),
        k(rows, s.keys(), type, odd),
        v(rows, s.values(), type, odd),
        a(rows, s.heads, type, odd),
        b(rows, s.heads, type, odd) {
    q.random(rng, size);
    k.random(rng, size);
    v.random(rng);
    a.random(rng, 2);
    b.random(rng, 2);
    for (std::int64_t head = 0; head < s.heads; ++head) {
      a_log.push_back(static_cast<float>(rng.uniform() * 6 - 5));
      dt_bias.push_back(static_cast<float>(rng.uniform() * 4 - 2));
    }
  }
  DeltaRuleKernelArgs args(const DeltaShape& s, std::span<const StateSpanEntry> spans,
                           TestRows& states, TestRows& out) {
    DeltaRuleKernelArgs args;
    args.q = q.rows();
    args.k = k.rows();
    args.v = v.rows();
    args.a = a.rows();
    args.b = b.rows();
    args.a_log = a_log.data();
    args.dt_bias = dt_bias.data();
    args.spans = spans.data();
    args.span_count = std::ssize(spans);
    args.states = states.rows();
    args.heads = s.heads;
    args.key_heads = s.key_heads;
    args.key_dim = s.key_dim;
    args.value_dim = s.value_dim;
    args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.key_dim)));
    args.out = out.rows();
    return args;
  }
};

// What the formula says, and how wrong f32 may be about it: error(t) of a column of the state is
// error(t - 1), which decay and I - beta k k^T do not make larger, and the token's own roundings.
class DeltaDefinition {
 public:
  DeltaDefinition(const DeltaShape& s, const DeltaRows& x, std::int64_t rows)
      : s_(s), x_(x), out(grid(rows, s.values())), out_error(out) {}

  // `state`: the page's numbers, of one head after the other.
  void run(const StateSpanEntry& span, std::vector<double>& state, std::vector<double>& errors) {
    for (std::int64_t row = span.row_begin; row < span.row_begin + span.row_count; ++row)
      for (std::int64_t head = 0; head < s_.heads; ++head) step(row, head, state, errors);
  }

 private:
  using Grid = std::vector<std::vector<double>>;
  static Grid grid(std::int64_t rows, std::int64_t cols) {
    return Grid(static_cast<std::size_t>(rows),
                std::vector<double>(static_cast<std::size_t>(cols)));
  }
  std::vector<double> with_length(const TestRows& of, std::int64_t row, std::int64_t head,
                                  double length) const {
    std::vector<double> numbers;
    double squares = 1e-6f;
    for (std::int64_t dim = 0; dim < s_.key_dim; ++dim) {
      numbers.push_back(of.at(row, head * s_.key_dim + dim));
      squares += numbers.back() * numbers.back();
    }
    for (double& number : numbers) number *= length / std::sqrt(squares);
    return numbers;
  }
  void step(std::int64_t row, std::int64_t head, std::vector<double>& state,
            std::vector<double>& errors) {
    const auto at_head = static_cast<std::size_t>(head);
    const auto dims = static_cast<double>(s_.key_dim);
    const double scale = static_cast<float>(1 / std::sqrt(dims));
    const std::int64_t key_head = head / (s_.heads / s_.key_heads);
    const std::vector<double> q = with_length(x_.q, row, key_head, scale);
    const std::vector<double> k = with_length(x_.k, row, key_head, 1);
    const double raised = static_cast<double>(x_.a.at(row, head)) + x_.dt_bias[at_head];
    const double decay =
        std::exp(-std::exp(static_cast<double>(x_.a_log[at_head])) * std::log1p(std::exp(raised)));
    const double beta = 1 / (1 + std::exp(-static_cast<double>(x_.b.at(row, head))));
    // In roundings: of a length (a lane's squares, then 5 sums, of which the root halves the
    // error), of the gates, of a sum over a column (4 sums, of every 16th row), of a token.
    const double length = (dims / 32 + 7) / 2 + 3;
    const double gate = 0.37 * (std::abs(raised) + 12) + 4;
    const double sum = dims / 16 + 6;
    const double token = sum + 2 * length + 2 * gate + 14;
    for (std::int64_t col = 0; col < s_.value_dim; ++col) {
      const auto at = [&](std::int64_t dim) -> double& {
        return state[static_cast<std::size_t>((head * s_.key_dim + dim) * s_.value_dim + col)];
      };
      const std::int64_t place = head * s_.value_dim + col;
      const double value = x_.v.at(row, place);
      double known = 0;
      double squares = 0;
      for (std::int64_t dim = 0; dim < s_.key_dim; ++dim) {
        known += decay * at(dim) * k[static_cast<std::size_t>(dim)];
        squares += at(dim) * at(dim);
      }
      const double size = std::sqrt(squares) + std::abs(value);
      double& error = errors[static_cast<std::size_t>(place)];
      error += token * kUnit * size;
      double seen = 0;
      for (std::int64_t dim = 0; dim < s_.key_dim; ++dim) {
        at(dim) = decay * at(dim) + beta * (value - known) * k[static_cast<std::size_t>(dim)];
        seen += at(dim) * q[static_cast<std::size_t>(dim)];
      }
      out[static_cast<std::size_t>(row)][static_cast<std::size_t>(place)] = seen;
      out_error[static_cast<std::size_t>(row)][static_cast<std::size_t>(place)] =
          scale * (error + (sum + length) * kUnit * size);
    }
  }

  const DeltaShape& s_;
  const DeltaRows& x_;

 public:
  Grid out;
  Grid out_error;
};

void check_delta(const DeltaShape& s, DType type, bool odd, std::uint64_t seed, double size = 1) {
  SCOPED_TRACE(fmt::format("{}, {}, odd {}, seed {}", s.name(), name_of(type), odd, seed));
  Rng rng(seed);
  emulator::seed(seed);
  const Spans spans(rng, 30);
  DeltaRows x(s, spans.rows, type, odd, rng, size);
  const TestRows q = x.q;
  const TestRows k = x.k;
  TestRows states(kPages, s.state(), DType::kF32, odd);
  states.random(rng);
  const TestRows old = states;
  TestRows out(spans.rows, s.values(), type, odd);
  out.random(rng);
  const TestRows before = out;
  launch_delta_rule(x.args(s, spans.list, states, out), nullptr);

  DeltaDefinition want(s, x, spans.rows);
  std::vector<std::vector<double>> pages;
  std::vector<std::vector<double>> errors(
      kPages, std::vector<double>(static_cast<std::size_t>(s.values())));
  for (std::int64_t page = 0; page < kPages; ++page) {
    std::vector<double>& numbers = pages.emplace_back();
    for (std::int64_t i = 0; i < s.state(); ++i) numbers.push_back(old.at(page, i));
  }
  std::vector<bool> covered(static_cast<std::size_t>(spans.rows));
  for (const StateSpanEntry& span : spans.list) {
    const auto page = static_cast<std::size_t>(span.page);
    if (span.fresh != 0 && span.row_count > 0)
      std::fill(pages[page].begin(), pages[page].end(), 0.0);
    want.run(span, pages[page], errors[page]);
    for (std::int32_t row = 0; row < span.row_count; ++row)
      covered[static_cast<std::size_t>(span.row_begin + row)] = true;
  }
  const auto wanted = [&](std::int64_t row, std::int64_t col) -> double {
    const auto at = static_cast<std::size_t>(row);
    return covered[at] ? want.out[at][static_cast<std::size_t>(col)] : before.at(row, col);
  };
  expect_near(out, wanted, [&](std::int64_t row, std::int64_t col) -> double {
    const auto at = static_cast<std::size_t>(row);
    if (!covered[at]) return 0;
    const double error = want.out_error[at][static_cast<std::size_t>(col)];
    return error + rounding(type) * (std::abs(wanted(row, col)) + error);
  });
  expect_near(
      states,
      [&](std::int64_t page, std::int64_t i) {
        return pages[static_cast<std::size_t>(page)][static_cast<std::size_t>(i)];
      },
      [&](std::int64_t page, std::int64_t i) {
        const std::int64_t place = i / (s.key_dim * s.value_dim) * s.value_dim + i % s.value_dim;
        return errors[static_cast<std::size_t>(page)][static_cast<std::size_t>(place)];
      });
  // It reads them, and no more.
  for (std::int64_t row = 0; row < spans.rows; ++row) {
    expect_same(x.q, q, row, row);
    expect_same(x.k, k, row, row);
  }
  for (const TestRows* each : {&x.q, &x.k, &x.v, &x.a, &x.b}) EXPECT_TRUE(each->intact());
}

TEST(DeltaRuleKernel, MatchesItsDefinition) {
  std::uint64_t seed = 100;
  for (const DType type : kRecurrentTypes) {
    for (const bool odd : {false, true}) {
      check_delta({1, 1, 1, 1}, type, odd, ++seed);
      check_delta({2, 4, 24, 20}, type, odd, ++seed);
      check_delta({1, 3, 33, 40}, type, odd, ++seed);
      check_delta({1, 2, 128, 40}, type, odd, ++seed);
    }
    check_delta({1, 1, 200, 9}, type, true, ++seed);
    check_delta({1, 2, 256, 8}, type, false, ++seed);
  }
}

TEST(DeltaRuleKernel, OfAnyShape) {
  Rng rng(7);
  for (std::uint64_t i = 0; i < 24; ++i) {
    const auto key_heads = static_cast<std::int64_t>(1 + rng.below(3));
    check_delta({key_heads, key_heads * static_cast<std::int64_t>(1 + rng.below(3)),
                 static_cast<std::int64_t>(1 + rng.below(80)),
                 static_cast<std::int64_t>(1 + rng.below(70))},
                kRecurrentTypes[rng.below(2)], rng.below(2) == 0, 200 + i);
  }
}

// Keys too wide for registers.
TEST(DeltaRuleKernel, OfWideKeys) {
  check_delta({1, 1, 257, 5}, DType::kF32, true, 300);
  check_delta({1, 1, 300, 17}, DType::kBf16, false, 301);
  check_delta({1, 1, kMaxKeyDim, 3}, DType::kF32, false, 302);
}

// Lengths that are mostly epsilon.
TEST(DeltaRuleKernel, OfNearlyNothing) {
  check_delta({1, 2, 64, 16}, DType::kF32, false, 310, 2e-4);
  check_delta({1, 2, 300, 8}, DType::kF32, true, 311, 2e-4);
}

// The bits of each row, and of the state behind the last, in one call, in calls of a row or a few
// each, and beside others; in place, too.
TEST(RecurrentKernels, ChunksAndNeighboursDoNotChangeABit) {
  constexpr std::int32_t kRows = 43;
  const DeltaShape s{1, 2, 40, 36};
  constexpr std::int64_t kTaps = 4;
  for (const DType type : kRecurrentTypes) {
    SCOPED_TRACE(name_of(type));
    Rng rng(11);
    const DeltaRows x(s, kRows, type, false, rng, 1);
    TestRows weight(kTaps, s.values(), DType::kF32);
    weight.random(rng);
    TestRows start(kPages, s.state(), DType::kF32);
    start.random(rng);
    TestRows kept(kPages, (kTaps - 1) * s.values(), DType::kF32);
    kept.random(rng);
    struct Run {
      DeltaRows x;
      TestRows states;
      TestRows kept;
    };
    // The convolution of v, and the rule over what comes of it, into its place.
    const auto call = [&](Run& of, const std::vector<StateSpanEntry>& spans) {
      launch_causal_conv({.x = of.x.v.rows(),
                          .weight = weight.rows(),
                          .spans = spans.data(),
                          .span_count = std::ssize(spans),
                          .states = of.kept.rows(),
                          .activation = Activation::kSilu,
                          .out = of.x.v.rows()},
                         nullptr);
      launch_delta_rule(of.x.args(s, spans, of.states, of.x.v), nullptr);
    };
    Run whole{x, start, kept};
    call(whole, {StateSpanEntry{0, kRows, 3, 1}});
    for (const std::int32_t chunk : {1, 3, 8, 33}) {
      SCOPED_TRACE(fmt::format("chunks of {}", chunk));
      emulator::seed(static_cast<std::uint64_t>(chunk));
      Run parts{x, start, kept};
      for (std::int32_t begin = 0; begin < kRows; begin += chunk)
        call(parts, {StateSpanEntry{begin, std::min(chunk, kRows - begin), 3, begin == 0 ? 1 : 0}});
      for (std::int64_t row = 0; row < kRows; ++row) expect_same(parts.x.v, whole.x.v, row, row);
      for (std::int64_t page = 0; page < kPages; ++page) {
        expect_same(parts.states, whole.states, page, page);
        expect_same(parts.kept, whole.kept, page, page);
      }
    }
    // Single rows of others on both sides.
    Run company{x, start, kept};
    call(company, {StateSpanEntry{0, 17, 3, 1}});
    call(company,
         {StateSpanEntry{17, 1, 3, 0}, StateSpanEntry{18, 1, 1, 0}, StateSpanEntry{19, 5, 5, 1}});
    Run alone{x, start, kept};
    call(alone, {StateSpanEntry{19, 5, 2, 1}});
    for (std::int64_t row = 0; row < 18; ++row) expect_same(company.x.v, whole.x.v, row, row);
    for (std::int64_t row = 19; row < 24; ++row) expect_same(company.x.v, alone.x.v, row, row);
    expect_same(company.states, alone.states, 5, 2);
    expect_same(company.kept, alone.kept, 5, 2);
    expect_same(company.states, start, 0, 0);
  }
}

// The device's own code: spans that the host overwrites at once, pages that the host may not read,
// activations in bf16.
TEST(RecurrentKernels, OnTheDeviceWithLateStreams) {
  constexpr std::int64_t kRows = 9;
  const DeltaShape s{1, 2, 16, 24};
  const std::int64_t cols = 2 * s.keys() + s.values();
  Rng rng(5);
  TestRows all(kRows, cols, DType::kBf16);
  all.random(rng);
  TestRows gates(kRows, 2 * s.heads, DType::kBf16);
  gates.random(rng);
  TestRows weight(4, cols, DType::kF32);
  weight.random(rng);
  TestRows fixed(2, s.heads, DType::kF32);
  fixed.random(rng);
  const auto view_of = [](TestRows& rows) {
    const Rows of = rows.rows();
    return View(static_cast<std::byte*>(of.data), of.type, of.rows, of.cols, of.stride);
  };
  const auto device = make_emulated_cuda_device({.late = true, .seed = 6}, DType::kBf16);
  Stream& stream = device->lane(Lane::kStep);
  std::vector<Buffer> buffers;
  const auto sent = [&](TestRows& rows) {
    const Rows of = rows.rows();
    buffers.push_back(
        *device->allocate(static_cast<std::size_t>(of.rows * of.cols) * size_of(of.type)));
    const View to = buffers.back().view(of.type, of.rows, of.cols);
    stream.upload(view_of(rows), to);
    return to;
  };
  const View x = sent(all);
  const View g = sent(gates);
  const View w = sent(weight);
  const View f = sent(fixed);
  const std::int64_t window = 3 * cols;
  buffers.push_back(
      *device->allocate(static_cast<std::size_t>(3 * (window + s.state())) * sizeof(float)));
  const View pages = buffers.back().view(DType::kF32, 3, window + s.state());
  // Two sequences in chunks: rows 0 to 3 and 4 to 8 of one step, a row each of the next.
  const auto steps = {std::array{StateSpan{0, 3, 2, 1}, StateSpan{4, 4, 1, 1}},
                      std::array{StateSpan{3, 1, 2, 0}, StateSpan{8, 1, 1, 0}}};
  for (const auto& step : steps) {
    std::vector<StateSpan> list(step.begin(), step.end());
    const StateSpans spans = stream.upload(list);
    std::fill(list.begin(), list.end(), StateSpan{-1, -1, -1, -1});
    stream.causal_conv(
        {.x = x, .weight = w, .spans = spans, .states = pages.col_range(0, window), .out = x});
    stream.delta_rule({.q = x.col_range(0, s.keys()),
                       .k = x.col_range(s.keys(), 2 * s.keys()),
                       .v = x.col_range(2 * s.keys(), cols),
                       .a = g.col_range(0, s.heads),
                       .b = g.col_range(s.heads, 2 * s.heads),
                       .a_log = f.row_range(0, 1),
                       .dt_bias = f.row_range(1, 2),
                       .spans = spans,
                       .states = pages.col_range(window, window + s.state()),
                       .key_dim = s.key_dim,
                       .value_dim = s.value_dim,
                       .scale = 0.25f,
                       .out = x.col_range(2 * s.keys(), cols)});
    stream.retire();
  }
  Buffer staging;
  const View got = *readable(stream, x, staging);
  Buffer page_staging;
  const View got_pages = *readable(stream, pages, page_staging);

  // The kernels at once, over memory of the host.
  TestRows kept(3, window, DType::kF32);
  TestRows states(3, s.state(), DType::kF32);
  for (std::int64_t page = 0; page < 3; ++page) {
    for (std::int64_t i = 0; i < window; ++i) kept.set(page, i, 0);
    for (std::int64_t i = 0; i < s.state(); ++i) states.set(page, i, 0);
  }
  const auto piece = [](TestRows& of, std::int64_t begin, std::int64_t end) {
    Rows rows = of.rows();
    rows.data =
        static_cast<std::byte*>(rows.data) + begin * static_cast<std::int64_t>(size_of(rows.type));
    rows.cols = end - begin;
    return rows;
  };
  const std::vector<StateSpanEntry> whole = {{0, 4, 2, 1}, {4, 5, 1, 1}};
  launch_causal_conv({.x = all.rows(),
                      .weight = weight.rows(),
                      .spans = whole.data(),
                      .span_count = 2,
                      .states = kept.rows(),
                      .activation = Activation::kSilu,
                      .out = all.rows()},
                     nullptr);
  const Rows numbers = fixed.rows();
  DeltaRuleKernelArgs args;
  args.q = piece(all, 0, s.keys());
  args.k = piece(all, s.keys(), 2 * s.keys());
  args.v = args.out = piece(all, 2 * s.keys(), cols);
  args.a = piece(gates, 0, s.heads);
  args.b = piece(gates, s.heads, 2 * s.heads);
  args.a_log = static_cast<const float*>(numbers.data);
  args.dt_bias = static_cast<const float*>(numbers.data) + numbers.stride;
  args.spans = whole.data();
  args.span_count = 2;
  args.states = states.rows();
  args.heads = s.heads;
  args.key_heads = s.key_heads;
  args.key_dim = s.key_dim;
  args.value_dim = s.value_dim;
  args.scale = 0.25f;
  launch_delta_rule(args, nullptr);
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t col = 0; col < cols; ++col)
      ASSERT_EQ(to_float(got.row<Bf16>(row)[col]), all.at(row, col)) << row << ", " << col;
  for (const std::int64_t page : {0, 1, 2}) {
    for (std::int64_t i = 0; i < window; ++i)
      ASSERT_EQ(got_pages.row<float>(page)[i], kept.at(page, i)) << page << ", " << i;
    for (std::int64_t i = 0; i < s.state(); ++i)
      ASSERT_EQ(got_pages.row<float>(page)[window + i], states.at(page, i)) << page << ", " << i;
  }
}

}  // namespace
}  // namespace saccade::cuda
