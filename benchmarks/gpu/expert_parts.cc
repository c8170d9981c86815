#include <algorithm>
#include <cmath>

#include "benchmarks/gpu/parts.h"

namespace saccade {
namespace {

struct ExpertWidths {
  const char* name;
  std::int64_t hidden;
  std::int64_t width;
  std::int64_t experts;
  std::int64_t per_row;
};
constexpr ExpertWidths k30B = {"30B-A3B", 2048, 768, 128, 8};  // of Qwen3 and Qwen3-VL
constexpr ExpertWidths kRehearsedExperts = {"rehearsal", 64, 24, 6, 2};

// The bytes are those of the weights of as many experts as rows that choose at random would meet.
void experts(DeviceBench& bench, const ExpertWidths& w, const std::vector<ExpertWeights>& weights,
             std::int64_t rows) {
  if (bench.over()) return;
  const DeviceMatrix x = bench.random(rows, w.hidden, DType::kBf16);
  const DeviceMatrix logits = bench.random(rows, w.experts, DType::kF32, 4);
  const DeviceMatrix gathered = bench.empty(rows, w.hidden, DType::kBf16);
  const DeviceMatrix inner = bench.empty(rows, 2 * w.width, DType::kBf16);
  const DeviceMatrix part = bench.empty(rows, w.hidden, DType::kBf16);
  const DeviceMatrix y = bench.empty(rows, w.hidden, DType::kBf16);
  const double took = bench.time([&] {
    bench.stream().experts({.x = x.view,
                            .logits = logits.view,
                            .experts = weights,
                            .per_row = w.per_row,
                            .gathered = gathered.view,
                            .inner = inner.view,
                            .part = part.view,
                            .y = y.view});
  });
  const auto m = static_cast<double>(rows);
  const double matrices = 3 * static_cast<double>(w.hidden * w.width);
  const double missed = std::pow(
      1 - static_cast<double>(w.per_row) / static_cast<double>(w.experts), static_cast<double>(m));
  const double met = static_cast<double>(w.experts) * (1 - missed);
  bench.figures().add("ops", fmt::format("experts {} rows {}", w.name, rows),
                      {{"seconds", took},
                       {"bytes", 2 * met * matrices + 4 * m * static_cast<double>(w.hidden)},
                       {"flops", 2 * m * static_cast<double>(w.per_row) * matrices}},
                      fmt::format("{:.0f} of {} experts, {} a row", met, w.experts, w.per_row));
}

}  // namespace

void measure_experts(DeviceBench& bench) {
  if (bench.over()) return;
  const ExpertWidths& w = bench.rehearsal() ? kRehearsedExperts : k30B;
  std::vector<std::unique_ptr<PackedWeight>> packed;
  std::vector<ExpertWeights> weights;
  for (std::int64_t e = 0; e < w.experts; ++e) {
    packed.push_back(bench.weight(2 * w.width, w.hidden));
    packed.push_back(bench.weight(w.hidden, w.width));
    weights.push_back({packed[packed.size() - 2].get(), packed.back().get()});
  }
  const std::vector<std::int64_t> rows =
      bench.rehearsal() ? std::vector<std::int64_t>{1, 17} : std::vector<std::int64_t>{1, 64, 2048};
  for (const std::int64_t m : rows) experts(bench, w, weights, m);
}

}  // namespace saccade
