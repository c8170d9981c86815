#include "bench/reports/sglang_report.h"

#include "bench/reports/vllm_report.h"

namespace saccade::bench {
std::string sglang_block(const RunLog& log, const RunMetrics& m) {
  const RunHeader& h = log.header;
  std::string out = "\n" + block_title(" Serving Benchmark Result ", '=');
  const auto row = [&](std::string_view label, const auto& value) {
    out += block_row(label, value);
  };
  const bool in = m.input_known();
  const bool made = m.output_known();
  row("Backend:", h.backend);
  row("Traffic request rate:", rate_word(h.request_rate));
  row("Max request concurrency:",
      h.max_concurrency > 0 ? fmt::to_string(h.max_concurrency) : "not set");
  row("Successful requests:", m.completed);
  row("Benchmark duration (s):", m.duration);
  row("Total input tokens:", if_known(in, m.total_input_tokens));
  row("Total input text tokens:", if_known(in, m.total_input_tokens - m.total_image_tokens));
  if (m.total_image_tokens > 0) row("Total input vision tokens:", m.total_image_tokens);
  row("Total generated tokens:", if_known(made, m.total_output_tokens));
  if (m.total_retokenized) row("Total generated tokens (retokenized):", *m.total_retokenized);
  row("Request throughput (req/s):", m.request_throughput);
  row("Input token throughput (tok/s):", if_known(in, m.input_throughput));
  row("Output token throughput (tok/s):", if_known(made, m.output_throughput));
  row("Peak output token throughput (tok/s):", if_known(made, m.peak_output_per_s));
  row("Peak concurrent requests:", m.peak_concurrency);
  row("Total token throughput (tok/s):", if_known(in && made, m.total_token_throughput));
  row("Concurrency:", m.mean_concurrency);
  const auto section = [&](std::string_view title, std::string_view name,
                           const Distribution& sample, const std::vector<double>& percentiles) {
    out += latency_rows(m, {title, name, &sample}, percentiles);
  };
  section("End-to-End Latency", "E2E Latency", m.e2el, {90, 99});
  section("Time to First Token", "TTFT", m.ttft, {99});
  section("Time per Output Token (excl. 1st token)", "TPOT", m.tpot, {99});
  section("Inter-Token Latency", "ITL", m.itl, {95, 99});
  row("Max ITL (ms):", percentile_ms(m, m.itl, 100));
  return out + block_title("", '=');
}

}  // namespace saccade::bench
