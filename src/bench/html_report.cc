#include "bench/html_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/json.h"
#include "bench/report_assets.h"

namespace saccade::bench {
namespace {

using json::JsonWriter;

constexpr std::size_t kMaxItl = 20'000;  // of a run's gaps, evenly taken from the sorted ones
constexpr std::size_t kThroughputBins = 240;
constexpr std::size_t kMaxSeriesPoints = 600;
constexpr double kLateLimit = 0.001;  // seconds of p99 lateness above which the client is suspected
constexpr double kBusyLimit = 0.9;    // of its threads' time

struct SummaryRow {
  const char* name;
  const char* unit;
  double value;
  const char* better;  // "higher" or "lower"
};

std::vector<SummaryRow> summary_rows(const RunMetrics& m) {
  std::vector<SummaryRow> rows = {
      {"Successful requests", "", static_cast<double>(m.completed), "higher"},
      {"Failed requests", "", static_cast<double>(m.failed), "lower"},
      {"Duration", "s", m.duration, "lower"},
      {"Request throughput", "req/s", m.request_throughput, "higher"},
      {"Output throughput", "tok/s", m.output_throughput, "higher"},
      {"Total throughput", "tok/s", m.total_token_throughput, "higher"},
      {"Peak concurrency", "", static_cast<double>(m.peak_concurrency), "higher"},
      {"Input tokens", "", static_cast<double>(m.total_input_tokens), "higher"},
      {"Image tokens", "", static_cast<double>(m.total_image_tokens), "higher"},
      {"Cached tokens", "", static_cast<double>(m.total_cached_tokens), "higher"},
      {"Output tokens", "", static_cast<double>(m.total_output_tokens), "higher"},
  };
  rows.push_back(
      {"Goodput", "req/s", m.goodput ? m.goodput->per_second : m.request_throughput, "higher"});
  return rows;
}

struct LatencyRow {
  const char* name;
  const Distribution* sample;
};

std::vector<LatencyRow> latency_rows(const RunMetrics& m) {
  return {{"Time to first token", &m.ttft},
          {"… from the schedule", &m.ttft_from_schedule},
          {"Time per output token", &m.tpot},
          {"Inter-token latency", &m.itl},
          {"End to end", &m.e2el},
          {"… from the schedule", &m.e2el_from_schedule},
          {"Queue of the client", &m.client_queue}};
}

void write_summary(JsonWriter& w, const RunMetrics& m) {
  w.key("summary");
  w.begin_array();
  for (const SummaryRow& row : summary_rows(m)) {
    w.begin_object();
    w.member("name", std::string_view(row.name));
    w.member("unit", std::string_view(row.unit));
    w.member("value", row.value);
    w.member("better", std::string_view(row.better));
    w.end_object();
  }
  w.end_array();
}

void write_latency(JsonWriter& w, const RunMetrics& m) {
  w.key("latency");
  w.begin_array();
  for (const auto& [name, sample] : latency_rows(m)) {
    if (sample->empty()) continue;
    w.begin_object();
    w.member("name", std::string_view(name));
    w.member("n", static_cast<std::int64_t>(sample->size()));
    w.member("mean", sample->mean() * 1e3);
    w.member("max", sample->max() * 1e3);
    for (const auto& [key, percent] :
         {std::pair{"p50", 50.0}, std::pair{"p90", 90.0}, std::pair{"p99", 99.0}}) {
      w.member(key, m.percentile(*sample, percent) * 1e3);
      if (const auto interval = percentile_interval(*sample, percent)) {
        w.key(std::string(key) + "_interval");
        w.begin_array();
        w.value(interval->low * 1e3);
        w.value(interval->high * 1e3);
        w.end_array();
      } else {
        w.member(std::string(key) + "_few", true);
      }
    }
    w.end_object();
  }
  w.end_array();
}

void write_optional_ms(JsonWriter& w, std::string_view key, const std::optional<double>& value) {
  w.key(key);
  if (value) {
    w.value(*value * 1e3);
  } else {
    w.null();
  }
}

// [name, begin, end] in seconds since the run's origin: the server's own stages where it gave them.
class StageBars {
 public:
  StageBars(const RunLog& log, const RequestRecord& record, const StreamInstants& instants)
      : record_(record), instants_(instants) {
    for (const StageTime& stage : log.stages_of(record)) at_[stage.name] = stage.seconds;
  }
  bool from_server() const { return at_.contains("first_token") && at_.contains("finished"); }

  void write(JsonWriter& w) const {
    w.key("stages");
    w.begin_array();
    const double begin = seconds(record_.start);
    bar(w, "client queue", seconds(record_.scheduled == kNever ? record_.start : record_.scheduled),
        begin);
    if (from_server()) {
      // The server's axis begins at arrival, which the client sees as the instant its body was
      // sent.
      const double arrival = seconds(record_.sent == kNever ? record_.start : record_.sent);
      const auto at = [&](const char* name, double otherwise) {
        const auto it = at_.find(name);
        return it == at_.end() ? otherwise : arrival + it->second;
      };
      const double media = at("preprocessed", arrival);
      const double encode_begin = at("encode_start", media);
      const double encode_end = at("encode_end", encode_begin);
      const double scheduled = std::max(at("first_scheduled", encode_end), encode_end);
      const double first = at("first_token", scheduled);
      bar(w, "media", arrival, media);
      bar(w, "queue", media, encode_begin);
      bar(w, "encode", encode_begin, encode_end);
      bar(w, "queue", encode_end, scheduled);
      bar(w, "prefill", scheduled, first);
      bar(w, "decode", first, at("finished", first));
    } else if (instants_.first_output != kNever) {
      bar(w, "to first token", begin, seconds(instants_.first_output));
      bar(w, "decode", seconds(instants_.first_output), seconds(record_.end));
    } else {
      bar(w, "failed", begin, seconds(record_.end));
    }
    w.end_array();
  }

 private:
  static void bar(JsonWriter& w, std::string_view name, double begin, double end) {
    if (end <= begin) return;
    w.begin_array();
    w.value(name);
    w.value(begin);
    w.value(end);
    w.end_array();
  }

  const RequestRecord& record_;
  const StreamInstants& instants_;
  std::map<std::string, double, std::less<>> at_;
};

bool write_requests(JsonWriter& w, const RunLog& log, const RunMetrics& m) {
  bool has_stages = false;
  w.key("requests");
  w.begin_array();
  for (const RequestMetrics& metrics : m.requests) {
    const RequestRecord& record = log.requests[metrics.position];
    if (record.start == kNever || record.end == kNever) continue;
    const StreamInstants instants = stream_instants(log.events_of(metrics.position));
    w.begin_object();
    w.member("index", static_cast<std::int64_t>(record.index));
    w.member("start", seconds(record.start));
    w.member("end", seconds(record.end));
    w.member("ok", metrics.success);
    if (metrics.error != ErrorClass::kNone) w.member("error", name_of(metrics.error));
    write_optional_ms(w, "ttft", metrics.ttft);
    write_optional_ms(w, "tpot", metrics.tpot);
    write_optional_ms(w, "e2el", metrics.e2el);
    w.member("image_tokens", metrics.image_tokens.value_or(0));
    w.member("output_tokens", metrics.output_tokens.value_or(0));
    const StageBars bars(log, record, instants);
    has_stages = has_stages || bars.from_server();
    bars.write(w);
    w.end_object();
  }
  w.end_array();
  return has_stages;
}

void write_itl(JsonWriter& w, const RunMetrics& m) {
  const auto sorted = m.itl.sorted();
  const std::size_t step = sorted.size() / kMaxItl + 1;
  w.key("itl");
  w.begin_array();
  for (std::size_t i = 0; i < sorted.size(); i += step) w.value(sorted[i] * 1e3);
  w.end_array();
}

void write_throughput(JsonWriter& w, const RunLog& log) {
  Nanos last = 1;
  for (const LoggedEvent& event : log.events) last = std::max(last, event.at);
  std::vector<double> tokens(kThroughputBins);
  for (const LoggedEvent& event : log.events) {
    if ((event.kinds & kOutputEvent) == 0 || event.at < 0) continue;
    const auto bin = static_cast<std::size_t>(static_cast<double>(event.at) /
                                              static_cast<double>(last) * (kThroughputBins - 1));
    tokens[bin] += event.tokens == kUnknownTokens ? 1 : event.tokens;
  }
  const double width = seconds(last) / kThroughputBins;
  w.key("throughput");
  w.begin_array();
  for (std::size_t i = 0; i < kThroughputBins && !log.events.empty(); ++i) {
    w.begin_array();
    w.value((static_cast<double>(i) + 0.5) * width);
    w.value(tokens[i] / width);
    w.end_array();
  }
  w.end_array();
}

// Readings of the server over time, those that moved.
void write_series(JsonWriter& w, const RunLog& log) {
  std::map<std::string, std::vector<std::pair<double, double>>> series;
  for (const Sample& sample : log.samples) {
    if (sample.source == "client") continue;
    for (const auto& [name, value] : sample.values) {
      if (name.ends_with("_bucket") || name.ends_with("_sum") || name.ends_with("_created"))
        continue;
      series[sample.source + ": " + name].emplace_back(seconds(sample.at), value);
    }
  }
  w.key("series");
  w.begin_object();
  for (const auto& [name, points] : series) {
    const bool moved = std::any_of(points.begin(), points.end(), [&](const auto& point) {
      return point.second != points.front().second;
    });
    if (!moved) continue;
    w.key(name);
    w.begin_array();
    const std::size_t step = points.size() / kMaxSeriesPoints + 1;
    for (std::size_t i = 0; i < points.size(); i += step) {
      w.begin_array();
      w.value(points[i].first);
      w.value(points[i].second);
      w.end_array();
    }
    w.end_array();
  }
  w.end_object();
}

void write_client(JsonWriter& w, const RunLog& log, const RunMetrics& m) {
  const ClientLoad& client = log.client;
  const double share = client.wall_seconds > 0 && client.threads > 0
                           ? client.cpu_seconds / (client.wall_seconds * client.threads)
                           : 0;
  const double late = m.percentile(m.lateness, 99);
  const bool limiting = late > kLateLimit || share > kBusyLimit;
  w.key("client");
  w.begin_object();
  w.member("limiting", limiting);
  w.member("verdict",
           std::string_view(limiting ? "The client may have limited this run: it was late or busy."
                                     : "The client did not limit this run."));
  w.key("rows");
  w.begin_array();
  const auto row = [&w](std::string_view name, const std::string& value) {
    w.begin_array();
    w.value(name);
    w.value(std::string_view(value));
    w.end_array();
  };
  row("Lateness of starts, p50 (ms)", fmt::format("{:.3f}", m.percentile(m.lateness, 50) * 1e3));
  row("Lateness of starts, p99 (ms)", fmt::format("{:.3f}", late * 1e3));
  row("Lateness of starts, largest (ms)", fmt::format("{:.3f}", m.lateness.max() * 1e3));
  row("Event-loop lag, p99 (ms)", fmt::format("{:.3f}", milliseconds(client.loop_lag_p99)));
  row("Threads", fmt::format("{}", client.threads));
  row("Processor time of its threads", fmt::format("{:.0f} %", share * 100));
  row("Connections made", fmt::format("{}", client.connects));
  row("Sent / received (MB)",
      fmt::format("{:.2f} / {:.2f}", static_cast<double>(client.bytes_sent) / 1e6,
                  static_cast<double>(client.bytes_received) / 1e6));
  w.end_array();
  w.end_object();
}

StringPairs header_pairs(const RunLog& log) {
  const RunHeader& h = log.header;
  std::string argv;
  for (const auto& argument : h.argv) argv += (argv.empty() ? "" : " ") + argument;
  StringPairs pairs = {
      {"Command", argv},
      {"Tool version", h.tool_version},
      {"Server", h.base_url + h.endpoint},
      {"Server version", h.server_version},
      {"Model", h.model},
      {"Dataset", h.dataset + (h.dataset_path.empty() ? "" : " from " + h.dataset_path)},
      {"Dataset hash", h.dataset_hash},
      {"Arrivals", h.arrivals},
      {"Request rate", fmt::format("{}", h.request_rate)},
      {"Concurrency cap", h.max_concurrency == 0 ? "none" : fmt::format("{}", h.max_concurrency)},
      {"Arrival hash", h.arrival_hash},
      {"Seed", fmt::format("{}", h.seed)},
      {"Host", fmt::format("{}, {} cores, {:.0f} GiB, {}", h.host.cpu, h.host.cores,
                           static_cast<double>(h.host.memory_bytes) / (1 << 30), h.host.kernel)},
      {"Ended", log.stop_reason + (log.truncated ? " (log file cut short)" : "")}};
  pairs.insert(pairs.end(), h.server_parameters.begin(), h.server_parameters.end());
  pairs.insert(pairs.end(), h.metadata.begin(), h.metadata.end());
  std::erase_if(pairs, [](const auto& pair) { return pair.second.empty(); });
  return pairs;
}

void write_run(JsonWriter& w, const ReportedRun& run) {
  w.begin_object();
  w.member("name", std::string_view(run.name));
  w.member("title",
           std::string_view(fmt::format("{}: {} requests to {}", run.name,
                                        run.metrics->requests.size(), run.log->header.model)));
  write_summary(w, *run.metrics);
  write_latency(w, *run.metrics);
  const bool has_stages = write_requests(w, *run.log, *run.metrics);
  w.member("has_stages", has_stages);
  write_itl(w, *run.metrics);
  write_throughput(w, *run.log);
  write_series(w, *run.log);
  write_client(w, *run.log, *run.metrics);
  w.key("header");
  w.begin_array();
  for (const auto& [key, value] : header_pairs(*run.log)) {
    w.begin_array();
    w.value(std::string_view(key));
    w.value(std::string_view(value));
    w.end_array();
  }
  w.end_array();
  w.end_object();
}

// Inside <script> only "</" and "<!" could end or change the element; both are the same JSON when
// escaped.
std::string inside_script(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') {
      safe += "\\u003c";
    } else {
      safe += text[i];
    }
  }
  return safe;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

// What is shown without the script: the same numbers as tables.
std::string plain_tables(std::span<const ReportedRun> runs) {
  std::string out = "<h1>Benchmark report</h1>\n";
  for (const ReportedRun& run : runs) {
    out += fmt::format("<h2>{}</h2>\n<table>\n", escaped(run.name));
    for (const SummaryRow& row : summary_rows(*run.metrics)) {
      out += fmt::format("<tr><th>{} {}</th><td>{:.2f}</td></tr>\n", row.name, row.unit, row.value);
    }
    out +=
        "</table>\n<table><thead><tr><th>ms</th><th>n</th><th>mean</th><th>p50</th><th>p99</th></"
        "tr></thead>\n";
    for (const auto& [name, sample] : latency_rows(*run.metrics)) {
      if (sample->empty()) continue;
      out += fmt::format(
          "<tr><th>{}</th><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</td></tr>\n", name,
          sample->size(), sample->mean() * 1e3, run.metrics->percentile(*sample, 50) * 1e3,
          run.metrics->percentile(*sample, 99) * 1e3);
    }
    out += "</table>\n<table>\n";
    for (const auto& [key, value] : header_pairs(*run.log)) {
      out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escaped(key), escaped(value));
    }
    out += "</table>\n";
  }
  return out;
}

}  // namespace

std::string report_json(std::span<const ReportedRun> runs) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  w.member("generator", std::string_view("saccade " SACCADE_VERSION));
  w.key("runs");
  w.begin_array();
  for (const ReportedRun& run : runs) write_run(w, run);
  w.end_array();
  w.end_object();
  return out;
}

std::string html_report(std::span<const ReportedRun> runs) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Benchmark "
      "report</title>\n<style>\n";
  page += report_style();
  page += "</style>\n</head>\n<body>\n";
  if (report_script().empty()) {
    page += plain_tables(runs);
  } else {
    page += "<noscript>\n" + plain_tables(runs) +
            "</noscript>\n<script type=\"application/json\" id=\"saccade-data\">";
    page += inside_script(report_json(runs));
    page += "</script>\n<script>\n";
    page += report_script();
    page += "\n</script>\n";
  }
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace saccade::bench
