#include "bench/reports/genai_report.h"

#include <array>
#include <map>

#include "base/json_scopes.h"

namespace saccade::bench {
namespace {

using Value = std::optional<double>;

// What genai-bench derives for a request, by its own formulas.
struct Derived {
  Value ttft, tpot, e2e_latency, output_latency, output_inference_speed, num_input_tokens,
      num_output_tokens, total_tokens, input_throughput, output_throughput;
};

constexpr std::array<std::pair<std::string_view, Value Derived::*>, 10> kColumns = {{
    {"ttft", &Derived::ttft},
    {"tpot", &Derived::tpot},
    {"e2e_latency", &Derived::e2e_latency},
    {"output_latency", &Derived::output_latency},
    {"output_inference_speed", &Derived::output_inference_speed},
    {"num_input_tokens", &Derived::num_input_tokens},
    {"num_output_tokens", &Derived::num_output_tokens},
    {"total_tokens", &Derived::total_tokens},
    {"input_throughput", &Derived::input_throughput},
    {"output_throughput", &Derived::output_throughput},
}};

bool is_count(std::string_view column) {
  return column == "num_input_tokens" || column == "num_output_tokens" || column == "total_tokens";
}

Derived derive(const RequestMetrics& m) {
  Derived d;
  d.ttft = m.ttft;
  d.tpot = m.tpot;
  d.e2e_latency = m.e2el;
  if (m.e2el && m.ttft) d.output_latency = *m.e2el - *m.ttft;
  if (m.tpot && *m.tpot > 0) d.output_inference_speed = 1 / *m.tpot;
  if (m.input_tokens) d.num_input_tokens = static_cast<double>(*m.input_tokens);
  if (m.output_tokens) d.num_output_tokens = static_cast<double>(*m.output_tokens);
  if (m.input_tokens && m.output_tokens)
    d.total_tokens = *d.num_input_tokens + *d.num_output_tokens;
  if (d.num_input_tokens && m.ttft && *m.ttft > 0)
    d.input_throughput = *d.num_input_tokens / *m.ttft;
  if (d.num_output_tokens && m.tpot && d.output_latency && *d.output_latency > 0)
    d.output_throughput = (*d.num_output_tokens - 1) / *d.output_latency;
  return d;
}

void write_value(json::JsonWriter& w, std::string_view column, const Value& value) {
  if (value && is_count(column))
    w.member(column, static_cast<std::int64_t>(*value));
  else
    json::member_or_null(w, column, value);
}

void write_stats(json::JsonWriter& w, const std::vector<Derived>& successes,
                 const RunMetrics& metrics) {
  const auto write_column = [&](Value Derived::* column) {
    std::vector<double> values;
    for (const Derived& d : successes)
      if (d.*column) values.push_back(*(d.*column));
    const Distribution sample(std::move(values));
    const auto member = [&](std::string_view name, double value) {
      json::member_or_null(w, name, sample.empty() ? Value() : value);
    };
    member("min", sample.min());
    member("max", sample.max());
    member("mean", sample.mean());
    member("stddev", sample.std_dev());
    member("sum", sample.sum());
    for (const int p : {25, 50, 75, 90, 95, 99})
      member(fmt::format("p{}", p), metrics.percentile(sample, p));
  };
  json::object_member(w, "stats", [&] {
    for (const auto& [name, column] : kColumns)
      json::object_member(w, name, [&, column = column] { write_column(column); });
  });
}

// Error codes as the client counts them: HTTP status, or the class where there is none.
std::map<std::string, std::int64_t> error_codes(const RunLog& log, const RunMetrics& metrics) {
  std::map<std::string, std::int64_t> codes;
  for (const RequestMetrics& m : metrics.requests) {
    if (m.success) continue;
    const std::int32_t status = log.requests[m.position].status;
    ++codes[status == 0 || status == 200 ? std::string(name_of(m.error)) : fmt::to_string(status)];
  }
  return codes;
}

void write_genai_request(json::JsonWriter& w, const RunLog& log, const RequestMetrics& m,
                         const Derived& d, bool with_texts) {
  const RequestRecord& record = log.requests[m.position];
  w.begin_object();
  for (const auto& [name, column] : kColumns) write_value(w, name, d.*column);
  w.key("error_code");
  m.success ? w.null() : w.value(record.status);
  w.key("error_message");
  const std::string_view text = log.text_of(record.error);
  m.success ? w.null() : w.value(text.empty() ? name_of(m.error) : text);
  if (with_texts) {
    w.member("generated_text", log.text_of(record.answer));
    w.member("answer_text", log.prompts[record.prompt].reference);
  }
  w.end_object();
}

void write_aggregate(json::JsonWriter& w, const RunLog& log, const RunMetrics& metrics,
                     const GenaiReportSettings& settings, const std::vector<Derived>& successes) {
  const std::int64_t requests = metrics.completed + metrics.failed;
  w.begin_object();
  w.member("scenario", settings.scenario);
  w.member("num_concurrency", settings.iteration_type == "num_concurrency" ? settings.level : 1);
  w.member("batch_size", settings.iteration_type == "batch_size" ? settings.level : 1);
  w.member("iteration_type", settings.iteration_type);
  w.member("run_duration", metrics.duration);
  w.member("mean_output_throughput_tokens_per_s", metrics.output_throughput);
  w.member("mean_input_throughput_tokens_per_s", metrics.input_throughput);
  w.member("mean_total_tokens_throughput_tokens_per_s", metrics.total_token_throughput);
  w.member("requests_per_second", metrics.request_throughput);
  json::object_member(w, "error_codes_frequency", [&] {
    for (const auto& [code, count] : error_codes(log, metrics)) w.member(code, count);
  });
  w.member("error_rate", requests == 0
                             ? 0.0
                             : static_cast<double>(metrics.failed) / static_cast<double>(requests));
  w.member("num_error_requests", metrics.failed);
  w.member("num_completed_requests", metrics.completed);
  w.member("num_requests", requests);
  write_stats(w, successes, metrics);
  w.end_object();
}

}  // namespace

std::string genai_json(const RunLog& log, const RunMetrics& metrics,
                       const GenaiReportSettings& settings) {
  std::vector<Derived> all;
  std::vector<Derived> successes;
  for (const RequestMetrics& m : metrics.requests) {
    all.push_back(m.success ? derive(m) : Derived{});
    if (m.success) successes.push_back(all.back());
  }
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  w.key("aggregated_metrics");
  write_aggregate(w, log, metrics, settings, successes);
  auto derived = all.begin();
  json::array_member(w, "individual_request_metrics", metrics.requests, [&](const auto& m) {
    write_genai_request(w, log, m, *derived++, settings.with_texts);
  });
  w.member("_time_unit", "s");
  w.end_object();
  return out;
}

std::string genai_metadata_json(const RunLog& log, const GenaiReportSettings& settings) {
  const RunHeader& h = log.header;
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  w.member("cmd", fmt::format("{}", fmt::join(h.argv, " ")));
  w.member("benchmark_version", h.tool_version);
  w.member("api_backend", h.backend);
  w.member("api_base", h.base_url);
  w.member("model", h.model);
  w.member("task", settings.task);
  json::array_member(w, "num_concurrency", std::array{settings.level});
  json::array_member(w, "traffic_scenario", std::array{settings.scenario});
  w.member("iteration_type", settings.iteration_type);
  w.member("server_version", h.server_version);
  w.member("max_requests_per_run", h.num_prompts);
  w.member("dataset_path", h.dataset_path);
  w.member("dataset_hash", h.dataset_hash);
  w.member("arrival_hash", h.arrival_hash);
  w.member("seed", h.seed);
  w.member("metrics_time_unit", "s");
  w.end_object();
  return out;
}

}  // namespace saccade::bench
