#include <algorithm>
#include <cmath>
#include <vector>

#include "benchmarks/gpu/parts.h"

namespace saccade {
namespace {

// One layer of gated delta nets.
struct DeltaWidths {
  const char* name;
  std::int64_t key_heads;
  std::int64_t value_heads;
  std::int64_t dim;  // of keys and of values

  std::int64_t keys() const { return key_heads * dim; }
  std::int64_t values() const { return value_heads * dim; }
  std::int64_t convolved() const { return 2 * keys() + values(); }
  std::int64_t window() const { return (kTaps - 1) * convolved(); }
  std::int64_t state() const { return values() * dim; }

  static constexpr std::int64_t kTaps = 4;
};
constexpr DeltaWidths kQwen08B = {"Qwen3.5 0.8B", 16, 16, 128};
constexpr DeltaWidths kQwen4B = {"Qwen3.5 4B", 16, 32, 128};
constexpr DeltaWidths kRehearsedDelta = {"rehearsal", 1, 2, 16};

// `sequences` of `rows` each go on from states that they have. The bytes are those of the rows and
// of the states, read and written.
void recurrence(DeviceBench& bench, const DeltaWidths& w, std::int64_t sequences,
                std::int64_t rows) {
  if (bench.over()) return;
  const std::int64_t all = sequences * rows;
  const std::int64_t page = w.window() + w.state();
  const std::int64_t page_bytes = page * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t sets =
      bench.rehearsal() ? 2 : std::max<std::int64_t>(1, kRotated / (sequences * page_bytes));
  const DeviceMatrix pages = bench.empty(sets * sequences, page, DType::kF32);
  const DeviceMatrix x = bench.random(all, w.convolved(), DType::kBf16);
  const DeviceMatrix out = bench.empty(all, w.convolved(), DType::kBf16);
  const DeviceMatrix taps = bench.random(DeltaWidths::kTaps, w.convolved(), DType::kF32);
  const DeviceMatrix gates = bench.random(all, 2 * w.value_heads, DType::kBf16);
  const DeviceMatrix fixed = bench.random(2, w.value_heads, DType::kF32);
  Stream& stream = bench.stream();
  std::vector<StateSpans> lists;
  for (std::int64_t set = 0; set < sets; ++set) {
    std::vector<StateSpan> spans;
    for (std::int64_t i = 0; i < sequences; ++i)
      spans.push_back({.row_begin = static_cast<std::int32_t>(i * rows),
                       .row_count = static_cast<std::int32_t>(rows),
                       .page = static_cast<std::int32_t>(set * sequences + i),
                       .fresh = 0});
    lists.push_back(stream.upload(spans));
  }
  std::size_t next = 0;
  const auto spans = [&] { return lists[next++ % lists.size()]; };
  const auto add = [&](const char* op, double seconds, double moved, double flops) {
    bench.figures().add("ops", fmt::format("{} {} {} x {} rows", op, w.name, sequences, rows),
                        {{"seconds", seconds}, {"bytes", moved}, {"flops", flops}});
  };
  const auto m = static_cast<double>(all);
  const double window_bytes =
      2 * sizeof(float) * static_cast<double>(sequences) * static_cast<double>(w.window());
  const double convolving = bench.time([&] {
    stream.causal_conv({.x = x.view,
                        .weight = taps.view,
                        .spans = spans(),
                        .states = pages.view.col_range(0, w.window()),
                        .out = out.view});
  });
  add("causal_conv", convolving, window_bytes + 4 * m * static_cast<double>(w.convolved()),
      2 * DeltaWidths::kTaps * m * static_cast<double>(w.convolved()));
  if (bench.over()) return;
  const double state_bytes =
      2 * sizeof(float) * static_cast<double>(sequences) * static_cast<double>(w.state());
  const double learning = bench.time([&] {
    stream.delta_rule({.q = x.view.col_range(0, w.keys()),
                       .k = x.view.col_range(w.keys(), 2 * w.keys()),
                       .v = x.view.col_range(2 * w.keys(), w.convolved()),
                       .a = gates.view.col_range(0, w.value_heads),
                       .b = gates.view.col_range(w.value_heads, 2 * w.value_heads),
                       .a_log = fixed.view.row_range(0, 1),
                       .dt_bias = fixed.view.row_range(1, 2),
                       .spans = spans(),
                       .states = pages.view.col_range(w.window(), page),
                       .key_dim = w.dim,
                       .value_dim = w.dim,
                       .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(w.dim))),
                       .out = out.view.col_range(0, w.values())});
  });
  // Of each element of the state what it knows, what it learns (twice) and what the query sees.
  add("delta_rule", learning,
      state_bytes + 2 * m * static_cast<double>(2 * w.keys() + 2 * w.values()),
      7 * m * static_cast<double>(w.state()));
  stream.retire();
}

}  // namespace

void measure_recurrence(DeviceBench& bench) {
  if (bench.rehearsal()) {
    recurrence(bench, kRehearsedDelta, 3, 1);
    recurrence(bench, kRehearsedDelta, 1, 17);
    return;
  }
  for (const DeltaWidths& w : {kQwen08B, kQwen4B}) {
    for (const std::int64_t sequences : {1, 8, 64, 256}) recurrence(bench, w, sequences, 1);
    recurrence(bench, w, 1, 512);
    recurrence(bench, w, 1, 2048);
    recurrence(bench, w, 8, 512);
  }
}

}  // namespace saccade
