#include "bench/reports/sglang_report.h"

#include "bench/reports/vllm_report.h"

namespace saccade::bench {
std::string sglang_block(const RunLog& log, const RunMetrics& m) {
  const RunHeader& h = log.header;
  std::string out = "\n" + block_title(" Serving Benchmark Result ", '=');
  out += block_row("Backend:", h.backend);
  out += block_row("Traffic request rate:", rate_word(h.request_rate));
  out += block_row("Max request concurrency:",
                   h.max_concurrency > 0 ? fmt::to_string(h.max_concurrency) : "not set");
  out += block_row("Successful requests:", m.completed);
  out += block_row("Benchmark duration (s):", m.duration);
  out += block_row("Total input tokens:", if_known(m.input_known(), m.total_input_tokens));
  out += block_row("Total input text tokens:",
                   if_known(m.input_known(), m.total_input_tokens - m.total_image_tokens));
  if (m.total_image_tokens > 0)
    out += block_row("Total input vision tokens:", m.total_image_tokens);
  out += block_row("Total generated tokens:", if_known(m.output_known(), m.total_output_tokens));
  if (m.total_retokenized)
    out += block_row("Total generated tokens (retokenized):", *m.total_retokenized);
  out += block_row("Request throughput (req/s):", m.request_throughput);
  out +=
      block_row("Input token throughput (tok/s):", if_known(m.input_known(), m.input_throughput));
  out += block_row("Output token throughput (tok/s):",
                   if_known(m.output_known(), m.output_throughput));
  out += block_row("Peak output token throughput (tok/s):",
                   if_known(m.output_known(), m.peak_output_per_s));
  out += block_row("Peak concurrent requests:", m.peak_concurrency);
  out += block_row("Total token throughput (tok/s):",
                   if_known(m.input_known() && m.output_known(), m.total_token_throughput));
  out += block_row("Concurrency:", m.mean_concurrency);
  const auto section = [&](std::string_view title, std::string_view name,
                           const Distribution& sample, const std::vector<double>& percentiles) {
    out += latency_rows(m, {title, name, &sample}, percentiles);
  };
  section("End-to-End Latency", "E2E Latency", m.e2el, {90, 99});
  section("Time to First Token", "TTFT", m.ttft, {99});
  section("Time per Output Token (excl. 1st token)", "TPOT", m.tpot, {99});
  section("Inter-Token Latency", "ITL", m.itl, {95, 99});
  out += block_row("Max ITL (ms):", percentile_ms(m, m.itl, 100));
  return out + block_title("", '=');
}

}  // namespace saccade::bench
