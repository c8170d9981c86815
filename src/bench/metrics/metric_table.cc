#include "bench/metrics/metric_table.h"

#include <cmath>

#include "bench/reports/vllm_report.h"

namespace saccade::bench {
namespace {

void add_latency(const Latency& latency, const RunMetrics& metrics, std::vector<MetricRow>& rows) {
  const Distribution& sample = metrics.*latency.sample;
  if (sample.empty()) return;
  const auto row = [&](std::string_view statistic, std::string_view word, double percentile) {
    const double value = percentile < 0 ? sample.mean() : metrics.percentile(sample, percentile);
    rows.push_back({.key = fmt::format("{}_{}_ms", statistic, latency.key),
                    .name = fmt::format("{} {} (ms)", word, latency.name),
                    .value = value * 1e3,
                    .sample = &sample,
                    .percentile = percentile});
  };
  row("mean", "Mean", -1);
  row("median", "Median", 50);
  row("p90", "P90", 90);
  row("p99", "P99", 99);
}

std::string load_word(const RunHeader& header) {
  if (header.arrivals == "closed-loop") return fmt::format("{} at once", header.max_concurrency);
  return std::isinf(header.request_rate) ? "inf" : fmt::format("{:g}", header.request_rate);
}

}  // namespace

std::vector<MetricRow> metric_table(const RunMetrics& m) {
  std::vector<MetricRow> rows;
  const auto rate = [&](const char* key, const char* name, double value) {
    rows.push_back({.key = key, .name = name, .higher_is_better = true, .value = value});
  };
  rate("request_throughput", "Requests/s", m.request_throughput);
  if (m.output_known()) rate("output_throughput", "Output tokens/s", m.output_throughput);
  if (m.input_known() && m.output_known())
    rate("total_token_throughput", "Total tokens/s", m.total_token_throughput);
  if (m.goodput) {
    rate("request_goodput", "Goodput (req/s)", m.goodput->per_second);
    rate("attainment", "Attainment (%)", m.goodput->attainment * 100);
  }
  const double requests = static_cast<double>(m.completed + m.failed);
  rows.push_back({.key = "failed_share",
                  .name = "Failed (%)",
                  .value = requests > 0 ? 100 * static_cast<double>(m.failed) / requests : 0});
  for (const Latency& latency : kLatencies) add_latency(latency, m, rows);
  return rows;
}

std::string markdown_table(std::span<const NamedRun> runs) {
  std::string out =
      "| run | rate | ok | failed | req/s | tok/s | TTFT mean / p50 / p99 (ms) | TPOT mean / p99 "
      "(ms) | "
      "ITL mean / p99 (ms) | E2EL mean / p99 (ms) |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const NamedRun& run : runs) {
    const RunMetrics& m = *run.metrics;
    const auto pair = [&](const Distribution& d) {
      if (d.empty()) return std::string("-");
      return fmt::format("{:.2f} / {:.2f}", d.mean() * 1e3, m.percentile(d, 99) * 1e3);
    };
    const std::string ttft =
        m.ttft.empty()
            ? "-"
            : fmt::format("{:.2f} / {:.2f} / {:.2f}", m.ttft.mean() * 1e3,
                          m.percentile(m.ttft, 50) * 1e3, m.percentile(m.ttft, 99) * 1e3);
    const std::string output_rate =
        m.output_known() ? fmt::format("{:.2f}", m.output_throughput) : "-";
    out += fmt::format("| {} | {} | {} | {} | {:.2f} | {} | {} | {} | {} | {} |\n", run.name,
                       load_word(run.log->header), m.completed, m.failed, m.request_throughput,
                       output_rate, ttft, pair(m.tpot), pair(m.itl), pair(m.e2el));
  }
  return out;
}

std::string repeat_summary(std::span<const RunMetrics> runs) {
  std::string out = block_title(fmt::format(" {} runs ", runs.size()), '=');
  if (runs.empty()) return out;
  for (const MetricRow& row : metric_table(runs.front())) {
    std::vector<double> values;
    for (const RunMetrics& run : runs)
      for (const MetricRow& other : metric_table(run))
        if (other.key == row.key) values.push_back(other.value);
    if (values.size() != runs.size()) continue;  // not measured in every run
    const Distribution sample(values);
    out += fmt::format("{:<30} {:>12.2f}", row.name, sample.mean());
    if (const auto interval = mean_interval(values))
      out += fmt::format("  [{:.2f}, {:.2f}]", interval->low, interval->high);
    out += fmt::format("  ({:.2f} to {:.2f})\n", sample.min(), sample.max());
  }
  return out + "mean over runs  [95 % t-interval]  (smallest to largest)\n";
}

}  // namespace saccade::bench
