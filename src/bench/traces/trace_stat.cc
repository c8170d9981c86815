#include "bench/traces/trace_stat.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace saccade::bench {
namespace {

void describe_gaps(std::span<const Nanos> due, TraceStat& stat) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < due.size(); ++i) {
    gaps.push_back(seconds(due[i] - due[i - 1]));
    stat.zero_gaps += due[i] == due[i - 1];
  }
  stat.distinct_stamps = due.size() - stat.zero_gaps;
  const Distribution gap(std::move(gaps));
  stat.gap_mean_s = gap.mean();
  if (gap.mean() > 0) stat.gap_cv = gap.std_dev() / gap.mean();
}

std::string lengths_row(std::string_view name, const Distribution& d) {
  if (d.empty()) return {};
  return fmt::format("{:<24}p50 {:g}  p90 {:g}  p99 {:g}  max {:g}  mean {:.1f}\n", name,
                     d.median(), d.percentile(90), d.percentile(99), d.max(), d.mean());
}

}  // namespace

std::int64_t busiest_bin(std::span<const Nanos> due, Nanos width) {
  std::int64_t busiest = 0;
  std::int64_t count = 0;
  Nanos bin = -1;
  for (const Nanos at : due) {
    if (at / width != bin) count = 0;
    bin = at / width;
    busiest = std::max(busiest, ++count);
  }
  return busiest;
}

std::int64_t busiest_window(std::span<const Nanos> due, Nanos width) {
  std::int64_t busiest = 0;
  std::size_t first = 0;
  for (std::size_t last = 0; last < due.size(); ++last) {
    while (due[last] - due[first] >= width) ++first;
    busiest = std::max(busiest, static_cast<std::int64_t>(last - first + 1));
  }
  return busiest;
}

TraceStat describe(const Trace& trace) {
  const std::vector<Nanos> due = due_times(trace);
  TraceStat stat;
  stat.requests = due.size();
  if (due.empty()) return stat;
  stat.span_s = seconds(due.back() - due.front());
  if (stat.span_s > 0) stat.mean_rate = static_cast<double>(due.size()) / stat.span_s;
  describe_gaps(due, stat);
  const auto rate = [&](std::int64_t count, int width_s) {
    return static_cast<double>(count) / width_s;
  };
  stat.peak_bins_1s = rate(busiest_bin(due, kSecond), 1);
  stat.peak_1s = rate(busiest_window(due, kSecond), 1);
  stat.peak_10s = rate(busiest_window(due, 10 * kSecond), 10);
  stat.peak_60s = rate(busiest_window(due, 60 * kSecond), 60);

  std::vector<double> inputs;
  std::vector<double> outputs;
  std::vector<double> images;
  std::unordered_set<std::int64_t> seen;
  for (const TraceRow& row : trace.rows) {
    if (row.input_tokens >= 0) inputs.push_back(row.input_tokens);
    if (row.output_tokens >= 0) outputs.push_back(row.output_tokens);
    if (row.num_images >= 0) images.push_back(row.num_images);
    for (const std::int64_t id : trace.hashes_of(row))
      stat.repeated_blocks += !seen.insert(id).second;
  }
  stat.hash_blocks = trace.hash_ids.size();
  stat.input_tokens = Distribution(std::move(inputs));
  stat.output_tokens = Distribution(std::move(outputs));
  stat.images = Distribution(std::move(images));
  return stat;
}

std::string to_text(const TraceStat& stat) {
  std::string out;
  out += fmt::format("{:<24}{}\n", "requests", stat.requests);
  out += fmt::format("{:<24}{:.3f}\n", "span (s)", stat.span_s);
  out += fmt::format("{:<24}{:.3f}\n", "mean rate (req/s)", stat.mean_rate);
  out += fmt::format("{:<24}mean {:.3f} s  CV {:.3f}  zero {}  distinct stamps {}\n", "gaps",
                     stat.gap_mean_s, stat.gap_cv, stat.zero_gaps, stat.distinct_stamps);
  out += fmt::format("{:<24}{:g} in 1-s bins from the origin\n", "peak (req/s)", stat.peak_bins_1s);
  out += fmt::format("{:<24}{:g} / {:g} / {:.2f} over sliding 1 / 10 / 60 s\n", "", stat.peak_1s,
                     stat.peak_10s, stat.peak_60s);
  out += lengths_row("input tokens", stat.input_tokens);
  out += lengths_row("output tokens", stat.output_tokens);
  out += lengths_row("images", stat.images);
  if (stat.hash_blocks > 0)
    out += fmt::format(
        "{:<24}{}, {:.1f} % repeated\n", "prefix blocks", stat.hash_blocks,
        100.0 * static_cast<double>(stat.repeated_blocks) / static_cast<double>(stat.hash_blocks));
  return out;
}

}  // namespace saccade::bench
