#include "bench/reports/vllm_report.h"

#include <fmt/chrono.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/json_scopes.h"

namespace saccade::bench {
namespace {

constexpr int kWidth = 50;

// One section of the block and its keys in the JSON.
struct Section {
  std::string_view key;
  std::string_view name;
  std::string_view title;
  Distribution RunMetrics::* sample;
};

constexpr std::array<Section, 6> kSections = {{
    {"ttft", "TTFT", "Time to First Token", &RunMetrics::ttft},
    {"tpot", "TPOT", "Time per Output Token (excl. 1st token)", &RunMetrics::tpot},
    {"itl", "ITL", "Inter-token Latency", &RunMetrics::itl},
    {"e2el", "E2EL", "End-to-end Latency", &RunMetrics::e2el},
    {"client_queue_time", "Client Queue Time", "Client-side Queueing", &RunMetrics::client_queue},
    {"e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency",
     &RunMetrics::e2el_from_schedule},
}};

bool selected(const VllmReportSettings& settings, std::string_view key) {
  for (const std::string& asked : settings.percentile_metrics)
    if (asked == key) return true;
  return false;
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t comma = text.find(',');
    words.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    text.remove_prefix(comma + 1);
  }
}

void write_identity(json::JsonWriter& w, const RunHeader& h, bool current) {
  w.member("date", file_date(h.origin_wall_ns));
  if (current) w.member("endpoint_type", h.backend);
  w.member("backend", h.backend);
  if (current) json::member_or_null(w, "label", if_known(!h.label.empty(), h.label));
  w.member("model_id", h.model);
  w.member("tokenizer_id", h.tokenizer.empty() ? h.model : h.tokenizer);
  w.member("num_prompts", h.num_prompts);
  for (const auto& [key, text] : h.metadata) w.member(key, text);
  w.key("request_rate");
  std::isinf(h.request_rate) ? w.value("inf") : w.value(h.request_rate);
  w.member("burstiness", h.burstiness);
  json::member_or_null(w, "max_concurrency", if_known(h.max_concurrency > 0, h.max_concurrency));
  if (current && !h.ramp_up_strategy.empty()) {
    w.member("ramp_up_strategy", h.ramp_up_strategy);
    w.member("ramp_up_start_rps", h.ramp_up_start_rps);
    w.member("ramp_up_end_rps", h.ramp_up_end_rps);
  }
}

void write_totals(json::JsonWriter& w, const RunMetrics& m, bool current) {
  w.member("duration", m.duration);
  w.member("completed", m.completed);
  if (current) w.member("failed", m.failed);
  w.member("total_input_tokens", m.total_input_tokens);
  w.member("total_output_tokens", m.total_output_tokens);
  w.member("request_throughput", m.request_throughput);
  // The key of 2024 has a colon in it.
  w.key(current ? "request_goodput" : "request_goodput:");
  m.goodput ? w.value(m.goodput->per_second) : w.null();
  w.member("output_throughput", m.output_throughput);
  w.member("total_token_throughput", m.total_token_throughput);
}

std::string error_of(const RunLog& log, const RunMetrics& metrics, const RequestMetrics& m) {
  if (m.success) return {};
  const std::string_view text = log.text_of(log.requests[m.position].error);
  if (!text.empty()) return std::string(text);
  if (m.error != ErrorClass::kNone) return std::string(name_of(m.error));
  return fmt::format("not a success by the rules of {}", metrics.rules.name);
}

// Arrays over all requests, failures included (as zeros, like the client's own).
void write_arrays(json::JsonWriter& w, const RunLog& log, const RunMetrics& metrics,
                  const VllmReportSettings& settings) {
  const bool current = settings.labels == VllmLabels::kCurrent;
  const bool detailed = settings.save_detailed;
  const auto record = [&](const RequestMetrics& m) -> const RequestRecord& {
    return log.requests[m.position];
  };
  const auto array = [&](bool wanted, std::string_view name, auto value) {
    if (!wanted) return;
    json::array_member(w, name, metrics.requests, [&](const auto& m) { w.value(value(m)); });
  };
  array(detailed, "input_lens", [](const auto& m) { return m.input_tokens.value_or(0); });
  array(detailed, "output_lens",
        [](const auto& m) { return m.success ? m.output_tokens.value_or(0) : 0; });
  array(detailed, "ttfts", [](const auto& m) { return m.success ? m.ttft.value_or(0) : 0.0; });
  if (detailed)
    json::array_member(w, "itls", metrics.requests,
                       [&](const auto& m) { json::put_array(w, metrics.itl_of(m)); });
  array(current, "latencies", [](const auto& m) { return m.success ? m.e2el.value_or(0) : 0.0; });
  array(current && detailed, "start_times", [&](const auto& m) {
    const Nanos start = record(m).start;
    return start == kNever ? 0.0 : seconds(start);
  });
  array(current, "queue_times", [](const auto& m) { return m.client_queue; });
  array(detailed, "generated_texts", [&](const auto& m) { return log.text_of(record(m).answer); });
  array(detailed, "errors", [&](const auto& m) { return error_of(log, metrics, m); });
  if (!current) return;
  w.member("max_output_tokens_per_s", metrics.peak_output_per_s);
  w.member("max_concurrent_requests", metrics.peak_concurrency);
  w.member("rtfx", 0.0);
}

}  // namespace

Result<std::vector<std::string>> parse_percentile_metrics(std::string_view text) {
  std::vector<std::string> metrics;
  for (const std::string_view word : split_at_commas(text)) {
    bool known = false;
    for (const Section& section : kSections) known = known || section.key == word;
    if (!known)
      return fail(ErrorCode::kInvalid,
                  "--percentile-metrics: '{}' is not one of ttft, tpot, itl, e2el, "
                  "client_queue_time, e2el_including_client_queue",
                  word);
    metrics.emplace_back(word);
  }
  return metrics;
}

Result<std::vector<double>> parse_percentiles(std::string_view text) {
  std::vector<double> percentiles;
  for (const std::string_view word : split_at_commas(text)) {
    double value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc() || end != word.data() + word.size() || !(value >= 0 && value <= 100))
      return fail(ErrorCode::kInvalid, "--metric-percentiles: '{}' is not between 0 and 100", word);
    percentiles.push_back(value);
  }
  return percentiles;
}

std::string block_title(std::string_view title, char fill) {
  const std::size_t room = title.size() < kWidth ? kWidth - title.size() : 0;
  return std::string(room / 2, fill) + std::string(title) + std::string(room - room / 2, fill) +
         "\n";
}

std::string block_row(std::string_view label, std::int64_t value) {
  return fmt::format("{:<40} {:<10}\n", label, value);
}
std::string block_row(std::string_view label, double value) {
  return fmt::format("{:<40} {:<10.2f}\n", label, value);
}
std::string block_row(std::string_view label, std::string_view value) {
  return fmt::format("{:<40} {:<10}\n", label, value);
}

std::string latency_rows(const RunMetrics& metrics, const LatencySection& section,
                         std::span<const double> percentiles) {
  std::string out = block_title(section.title, '-');
  const auto row = [&](std::string_view statistic, const std::optional<double>& value) {
    out += block_row(fmt::format("{} {} (ms):", statistic, section.name), value);
  };
  row("Mean", mean_ms(*section.sample));
  row("Median", percentile_ms(metrics, *section.sample, 50));
  for (const double p : percentiles)
    row("P" + percentile_word(p), percentile_ms(metrics, *section.sample, p));
  return out;
}

std::optional<double> mean_ms(const Distribution& sample) {
  if (sample.empty()) return std::nullopt;
  return sample.mean() * 1e3;
}

std::optional<double> percentile_ms(const RunMetrics& metrics, const Distribution& sample,
                                    double percent) {
  if (sample.empty()) return std::nullopt;
  return metrics.percentile(sample, percent) * 1e3;
}

std::string rate_word(double rate) {
  if (std::isinf(rate)) return "inf";
  std::string word;
  json::append_number(word, rate);
  return word;
}

std::string percentile_word(double percent) {
  return percent == std::floor(percent) ? fmt::format("{:.0f}", percent)
                                        : fmt::format("{}", percent);
}

std::string file_date(std::int64_t wall_ns) {
  return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(static_cast<std::time_t>(wall_ns / kSecond)));
}

std::string vllm_block(const RunLog& log, const RunMetrics& metrics,
                       const VllmReportSettings& settings) {
  const bool current = settings.labels == VllmLabels::kCurrent;
  const RunHeader& h = log.header;
  std::string out = block_title(" Serving Benchmark Result ", '=');
  const auto row = [&](std::string_view label, const auto& value) {
    out += block_row(label, value);
  };
  const bool in = metrics.input_known();
  const bool made = metrics.output_known();
  row("Successful requests:", metrics.completed);
  if (current) {
    row("Failed requests:", metrics.failed);
    if (h.max_concurrency > 0) row("Maximum request concurrency:", h.max_concurrency);
    if (!std::isinf(h.request_rate)) row("Request rate configured (RPS):", h.request_rate);
  }
  row("Benchmark duration (s):", metrics.duration);
  row("Total input tokens:", if_known(in, metrics.total_input_tokens));
  row("Total generated tokens:", if_known(made, metrics.total_output_tokens));
  row("Request throughput (req/s):", metrics.request_throughput);
  if (metrics.goodput) row("Request goodput (req/s):", metrics.goodput->per_second);
  row("Output token throughput (tok/s):", if_known(made, metrics.output_throughput));
  if (current) {
    row("Peak output token throughput (tok/s):", if_known(made, metrics.peak_output_per_s));
    row("Peak concurrent requests:", static_cast<double>(metrics.peak_concurrency));
  }
  row(current ? "Total token throughput (tok/s):" : "Total Token throughput (tok/s):",
      if_known(in && made, metrics.total_token_throughput));
  for (const Section& section : kSections)
    if (selected(settings, section.key))
      out += latency_rows(metrics, {section.title, section.name, &(metrics.*section.sample)},
                          settings.percentiles);
  return out + block_title("", '=');
}

std::string vllm_json(const RunLog& log, const RunMetrics& metrics,
                      const VllmReportSettings& settings) {
  const bool current = settings.labels == VllmLabels::kCurrent;
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  write_identity(w, log.header, current);
  write_totals(w, metrics, current);
  write_arrays(w, log, metrics, settings);
  for (const Section& section : kSections) {
    if (!selected(settings, section.key)) continue;
    const Distribution& sample = metrics.*section.sample;
    const auto member = [&](std::string_view statistic, const std::optional<double>& value) {
      json::member_or_null(w, fmt::format("{}_{}_ms", statistic, section.key), value);
    };
    member("mean", mean_ms(sample));
    member("median", percentile_ms(metrics, sample, 50));
    member("std", sample.empty() ? std::nullopt : std::optional(sample.std_dev() * 1e3));
    for (const double p : settings.percentiles)
      member("p" + percentile_word(p), percentile_ms(metrics, sample, p));
  }
  w.end_object();
  return out;
}

std::string vllm_file_name(const RunHeader& header) {
  const std::string concurrency =
      header.max_concurrency > 0 ? fmt::format("-concurrency{}", header.max_concurrency) : "";
  const std::string model = header.model.substr(header.model.rfind('/') + 1);
  return fmt::format("{}-{}qps{}-{}-{}.json", header.label.empty() ? header.backend : header.label,
                     rate_word(header.request_rate), concurrency, model,
                     file_date(header.origin_wall_ns));
}

}  // namespace saccade::bench
