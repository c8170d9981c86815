#include "bench/reports/report_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>

#include "base/json_scopes.h"
#include "bench/load/request_stages.h"
#include "bench/load/server/run_health.h"
#include "bench/metrics/compare.h"

namespace saccade::bench {
namespace {

using json::array_member;
using json::JsonWriter;
using json::object_member;
using json::put_array;
using json::put_object;

constexpr std::size_t kMaxCdfPoints = 2'000;
constexpr std::size_t kMaxSeriesPoints = 600;
constexpr std::size_t kMaxRequests = 4'000;
constexpr std::size_t kMaxStaged = 400;  // requests drawn stage by stage
constexpr std::size_t kThroughputBins = 160;
constexpr double kShortestBin = 0.1;  // seconds

// Seven digits are more than a chart shows; JSON has no word for what is not finite.
void number(JsonWriter& w, double value) {
  if (!std::isfinite(value)) {
    w.null();
    return;
  }
  const double scale =
      value == 0
          ? 1
          : std::pow(10.0, std::clamp(6 - std::floor(std::log10(std::abs(value))), 0.0, 12.0));
  w.value(std::round(value * scale) / scale);
}
void member(JsonWriter& w, std::string_view key, double value) {
  w.key(key);
  number(w, value);
}
void member_ms(JsonWriter& w, std::string_view key, const std::optional<double>& value_s) {
  if (value_s) member(w, key, *value_s * 1e3);
}
void point(JsonWriter& w, double x, double y) {
  put_array(w, std::array{x, y}, [&w](double value) { number(w, value); });
}

using Points = std::vector<std::pair<double, double>>;
void points_member(JsonWriter& w, std::string_view key, const Points& points) {
  array_member(w, key, points, [&w](const auto& p) { point(w, p.first, p.second); });
}

std::string load_words(const RunHeader& h) {
  std::string cap =
      h.max_concurrency > 0 ? fmt::format(", at most {} at once", h.max_concurrency) : "";
  if (h.arrivals == "closed-loop") return fmt::format("always {} at once", h.max_concurrency);
  if (std::isinf(h.request_rate)) return "all requests at once" + cap;
  return fmt::format("{:g} requests/s, {}{}", h.request_rate, h.arrivals, cap);
}

std::string wall_words(std::int64_t origin_wall_ns) {
  if (origin_wall_ns <= 0) return "";
  const std::time_t at = origin_wall_ns / kSecond;
  std::tm parts{};
  gmtime_r(&at, &parts);
  std::array<char, 40> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return std::string(text.data(), size);
}

// --- the summary ---

struct Exactness {
  std::size_t judged = 0;  // answers that were kept and have a reference
  std::size_t exact = 0;   // of them equal to it
};

Exactness exactness(const RunLog& log, const RunMetrics& m) {
  Exactness found;
  for (const RequestMetrics& metrics : m.requests) {
    const RequestRecord& record = log.requests[metrics.position];
    const std::string& reference = log.prompts[record.prompt].reference;
    if (!metrics.success || reference.empty() || record.answer.size == 0) continue;
    ++found.judged;
    found.exact += log.text_of(record.answer) == reference;
  }
  return found;
}

struct Figure {
  std::string_view name;
  std::string_view unit;
  double value;
  std::string_view better = {};
};

std::vector<Figure> figures_of(const RunLog& log, const RunMetrics& m) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  std::vector<Figure> figures = {{"Successful requests", "", count(m.completed)},
                                 {"Failed requests", "", count(m.failed), "lower"}};
  const auto append = [&](std::initializer_list<Figure> more) {
    figures.insert(figures.end(), more);
  };
  if (const Exactness answers = exactness(log, m); answers.judged > 0)
    append({{"Answers equal to the reference", "%",
             100 * static_cast<double>(answers.exact) / static_cast<double>(answers.judged),
             "higher"}});
  append({{"Duration", "s", m.duration},
          {"Requests", "req/s", m.request_throughput, "higher"},
          {"Output tokens", "tok/s", m.output_throughput, "higher"},
          {"Input and output tokens", "tok/s", m.total_token_throughput, "higher"}});
  if (m.goodput)
    append({{"Goodput", "req/s", m.goodput->per_second, "higher"},
            {"Requests within the targets", "%", m.goodput->attainment * 100, "higher"}});
  append({{"Most requests in flight", "", count(m.peak_concurrency)},
          {"Input tokens", "", count(m.total_input_tokens)},
          {"of which image tokens", "", count(m.total_image_tokens)},
          {"of which cached", "", count(m.total_cached_tokens)},
          {"Output tokens", "", count(m.total_output_tokens)}});
  return figures;
}

void write_figures(JsonWriter& w, const RunLog& log, const RunMetrics& m) {
  array_member(w, "figures", figures_of(log, m), [&w](const Figure& figure) {
    put_object(w, [&] {
      w.member("name", figure.name);
      w.member("unit", figure.unit);
      member(w, "value", figure.value);
      if (!figure.better.empty()) w.member("better", figure.better);
    });
  });
}

constexpr Latency kClientQueue{"client_queue", "Wait in the client", &RunMetrics::client_queue};

void write_latency(JsonWriter& w, const RunMetrics& m, const Latency& latency) {
  const Distribution& sample = m.*latency.sample;
  if (sample.empty()) return;
  w.begin_object();
  w.member("key", latency.key);
  w.member("name", latency.name);
  w.member("n", static_cast<std::int64_t>(sample.size()));
  member(w, "mean", sample.mean() * 1e3);
  member(w, "max", sample.max() * 1e3);
  for (const auto& [word, percent] :
       {std::pair{"p50", 50.0}, std::pair{"p90", 90.0}, std::pair{"p99", 99.0}}) {
    member(w, word, m.percentile(sample, percent) * 1e3);
    w.key(fmt::format("{}_interval", word));
    if (const auto interval = percentile_interval(sample, percent))
      point(w, interval->low * 1e3, interval->high * 1e3);
    else
      w.null();
  }
  w.end_object();
}

void write_latencies(JsonWriter& w, const RunMetrics& m) {
  w.key("latency");
  w.begin_array();
  for (const Latency& latency : kLatencies) write_latency(w, m, latency);
  // Without a cap nothing waits in the client.
  if (m.client_queue.max() > 0) write_latency(w, m, kClientQueue);
  w.end_array();
}

// Steps of the empirical distribution: [value in ms, share at or below it].
void write_cdf(JsonWriter& w, std::string_view key, const Distribution& sample) {
  const auto sorted = sample.sorted();
  const std::size_t count = std::min(sorted.size(), kMaxCdfPoints);
  Points points;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = count == 1 ? 0 : i * (sorted.size() - 1) / (count - 1);
    points.emplace_back(sorted[at] * 1e3,
                        static_cast<double>(at + 1) / static_cast<double>(sorted.size()));
  }
  points_member(w, key, points);
}

// --- may it be believed? ---

class Verdicts {
 public:
  explicit Verdicts(JsonWriter& w) : w_(w) {
    w_.key("verdicts");
    w_.begin_array();
  }
  ~Verdicts() { w_.end_array(); }
  Verdicts(const Verdicts&) = delete;
  Verdicts& operator=(const Verdicts&) = delete;

  // level: "good", "bad" or "note"
  void say(std::string_view about, std::string_view level, const std::string& text,
           const std::vector<std::string>& reasons = {}) {
    put_object(w_, [&] {
      w_.member("about", about);
      w_.member("level", level);
      w_.member("text", text);
      array_member(w_, "reasons", reasons);
    });
  }

 private:
  JsonWriter& w_;
};

void write_verdicts(JsonWriter& w, const RunLog& log, const RunMetrics& m) {
  Verdicts verdicts(w);
  if (m.failed == 0) {
    verdicts.say("Requests", "good", fmt::format("all {} requests succeeded", m.completed));
  } else {
    std::vector<std::string> classes;
    for (std::size_t i = 1; i < m.errors.size(); ++i)
      if (m.errors[i] > 0)
        classes.push_back(fmt::format("{}: {}", name_of(static_cast<ErrorClass>(i)), m.errors[i]));
    verdicts.say("Requests", "bad",
                 fmt::format("{} of {} requests failed; latencies are of the others", m.failed,
                             m.completed + m.failed),
                 classes);
  }
  const ClientVerdict client = judge_client(log, m);
  verdicts.say("Client", client.limiting ? "bad" : "good",
               client.limiting ? "the load generator may have distorted this run"
                               : "the load generator kept up",
               client.reasons);

  const OverloadVerdict load = judge_overload(log, m);
  const bool open = log.header.arrivals != "closed-loop" && log.header.arrivals != "inf";
  if (load.overloaded) {
    verdicts.say("Server", "bad",
                 fmt::format("overloaded: the queue grew to the end ({:+.2f} requests in flight "
                             "and {:+.0f} ms of TTFT per second), so a longer run would look worse",
                             load.in_flight_slope, load.ttft_slope * 1e3));
  } else if (open) {
    verdicts.say("Server", "good", "it kept up with the arrivals");
  } else {
    verdicts.say("Server", "note",
                 log.header.arrivals == "inf"
                     ? "all requests came at once: TTFT holds the wait for others"
                     : "the next request waits for an answer: load follows speed");
  }

  const CacheVerdict cache = judge_cache(log, m);
  const std::string share =
      fmt::format("{:.1f} % of the prompt tokens were cached", cache.cached_share * 100);
  if (cache.contaminated) {
    verdicts.say("Cache", "bad", "warm from before: " + share + " although their content is new");
  } else if (cache.cached_tokens > 0) {
    verdicts.say("Cache", "note",
                 share + (cache.reset ? ": parts that requests of this run share" : ""));
  }
  if (log.truncated || log.stop_reason != "complete")
    verdicts.say("Log", "bad",
                 log.truncated ? "the file ends early" : "the run ended early: " + log.stop_reason);
}

// --- over time ---

void write_in_flight(JsonWriter& w, const RunLog& log, const RunMetrics& m) {
  const std::vector<ConcurrencyStep> steps = concurrency_steps(log, m);
  Points points;
  const std::size_t stride = steps.size() / (4 * kMaxSeriesPoints) + 1;
  int running = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    running += steps[i].change;
    if (i % stride == 0 || i + 1 == steps.size())
      points.emplace_back(seconds(steps[i].at), running);
  }
  points_member(w, "in_flight", points);
}

// Tokens a second, in bins of equal width over the run.
void write_throughput(JsonWriter& w, const RunLog& log, const RunMetrics& m) {
  Nanos last = 0;
  for (const RequestMetrics& metrics : m.requests)
    for (const LoggedEvent& event : log.events_of(metrics.position))
      last = std::max(last, event.at);
  const double width = std::max(kShortestBin, seconds(last) / kThroughputBins);
  std::vector<double> tokens(static_cast<std::size_t>(seconds(last) / width) + 1);
  for (const RequestMetrics& metrics : m.requests)
    for (const TokenArrival& arrival : token_arrivals(log, metrics))
      if (arrival.at >= 0)
        tokens[static_cast<std::size_t>(seconds(arrival.at) / width)] += arrival.tokens;
  Points points;
  for (std::size_t i = 0; last > 0 && i < tokens.size(); ++i)
    points.emplace_back((static_cast<double>(i) + 0.5) * width, tokens[i] / width);
  points_member(w, "throughput", points);
}

// Every reading of the server and its machine. Of those that stay at zero the first and the last
// instant are enough.
void write_series(JsonWriter& w, const RunLog& log) {
  std::map<std::string, Points> series;
  for (const Sample& sample : log.samples) {
    if (sample.source == "client") continue;
    for (const auto& [name, value] : sample.values)
      if (name.find("_bucket") == std::string::npos && name.find("_created") == std::string::npos)
        series[sample.source + ": " + name].emplace_back(seconds(sample.at), value);
  }
  object_member(w, "series", [&] {
    for (const auto& [name, points] : series) {
      const bool zero =
          std::all_of(points.begin(), points.end(), [](const auto& p) { return p.second == 0; });
      const std::size_t stride =
          zero ? std::max<std::size_t>(1, points.size() - 1) : points.size() / kMaxSeriesPoints + 1;
      Points shown;
      for (std::size_t i = 0; i < points.size(); i += stride) shown.push_back(points[i]);
      points_member(w, name, shown);
    }
  });
}

// --- requests ---

void write_request(JsonWriter& w, const RunLog& log, const RequestMetrics& m, bool staged) {
  const RequestRecord& record = log.requests[m.position];
  w.begin_object();
  w.member("index", static_cast<std::int64_t>(record.index));
  member(w, "start", seconds(record.start));
  member(w, "end", seconds(record.end));
  if (m.error != ErrorClass::kNone) w.member("error", name_of(m.error));
  member_ms(w, "ttft", m.ttft);
  member_ms(w, "e2el", m.e2el);
  if (m.image_tokens) w.member("image_tokens", *m.image_tokens);
  if (m.input_tokens) w.member("input_tokens", *m.input_tokens);
  if (m.output_tokens) w.member("output_tokens", *m.output_tokens);
  if (staged)
    array_member(w, "stages", request_stages(log, record).stages, [&w](const RequestStage& stage) {
      w.begin_array();
      w.value(stage.name);
      number(w, stage.begin);
      number(w, stage.end);
      w.end_array();
    });
  w.end_object();
}

void write_requests(JsonWriter& w, const RunLog& log, const RunMetrics& m) {
  std::vector<const RequestMetrics*> begun;
  for (const RequestMetrics& metrics : m.requests) {
    const RequestRecord& record = log.requests[metrics.position];
    if (record.start != kNever && record.end != kNever) begun.push_back(&metrics);
  }
  w.member("total_requests", static_cast<std::int64_t>(begun.size()));
  const std::size_t stride = begun.size() / kMaxRequests + 1;
  w.key("requests");
  w.begin_array();
  for (std::size_t i = 0; i < begun.size(); i += i < kMaxStaged ? 1 : stride)
    write_request(w, log, *begun[i], i < kMaxStaged);
  w.end_array();

  // Where the time goes: the mean of each stage over the requests that succeeded.
  std::map<std::string_view, double> sums;
  std::size_t n = 0;
  bool from_server = false;
  for (const RequestMetrics* metrics : begun) {
    if (!metrics->success) continue;
    const RequestStages told = request_stages(log, log.requests[metrics->position]);
    from_server = from_server || told.from_server;
    for (const RequestStage& stage : told.stages) sums[stage.name] += stage.end - stage.begin;
    ++n;
  }
  w.member("stages_from_server", from_server);
  object_member(w, "stage_means", [&] {
    for (const auto& [name, sum] : sums) member(w, name, sum / static_cast<double>(n) * 1e3);
  });
}

// --- the client, the settings, the other runs ---

void write_pairs(JsonWriter& w, std::string_view key, const StringPairs& pairs) {
  array_member(w, key, pairs, [&w](const auto& pair) {
    put_array(w, std::array<std::string_view, 2>{pair.first, pair.second});
  });
}

StringPairs client_rows(const RunLog& log, const RunMetrics& m) {
  const ClientVerdict verdict = judge_client(log, m);
  const ClientLoad& client = log.client;
  return {
      {"Starts behind schedule, p50", fmt::format("{:.3f} ms", m.percentile(m.lateness, 50) * 1e3)},
      {"Starts behind schedule, p99", fmt::format("{:.3f} ms", verdict.lateness_p99_s * 1e3)},
      {"Starts behind schedule, largest", fmt::format("{:.3f} ms", verdict.lateness_max_s * 1e3)},
      {"Lag of its event loop, p99", fmt::format("{:.3f} ms", verdict.loop_lag_p99_s * 1e3)},
      {"Processor in use", fmt::format("{:.0f} % of {} thread{}", verdict.cpu_share * 100,
                                       client.threads, client.threads == 1 ? "" : "s")},
      {"Connections made", fmt::format("{}", client.connects)},
      {"Sent", fmt::format("{:.2f} MB", static_cast<double>(client.bytes_sent) / 1e6)},
      {"Received", fmt::format("{:.2f} MB", static_cast<double>(client.bytes_received) / 1e6)}};
}

void write_differences(JsonWriter& w, const ReportedRun& first, const ReportedRun& run) {
  const auto side = [](const ReportedRun& one) {
    Side made;
    made.logs.emplace_back().header = one.log->header;
    made.metrics.push_back(*one.metrics);
    return made;
  };
  const CompareResult result = compare(side(first), side(run));
  const auto write_row = [&w](const Comparison& row) {
    put_object(w, [&] {
      w.member("name", row.name);
      member(w, "a", row.a);
      member(w, "b", row.b);
      member(w, "effect", row.effect);
      if (row.interval) {
        w.key("interval");
        point(w, row.interval->low, row.interval->high);
      }
      if (row.p_value) member(w, "p", *row.p_value);
      w.member("verdict", name_of(row.verdict));
    });
  };
  object_member(w, "differences", [&] {
    array_member(w, "rows", result.rows, write_row);
    array_member(w, "warnings", result.warnings);
  });
}

void write_run(JsonWriter& w, const ReportedRun& run) {
  const RunLog& log = *run.log;
  const RunMetrics& m = *run.metrics;
  w.member("name", run.name);
  w.member("model", log.header.model);
  w.member("load", load_words(log.header));
  w.member("dataset", log.header.dataset);
  w.member("began", wall_words(log.header.origin_wall_ns));
  write_figures(w, log, m);
  write_latencies(w, m);
  write_verdicts(w, log, m);
  object_member(w, "cdf", [&] {
    for (const Latency& latency : kLatencies) write_cdf(w, latency.key, m.*latency.sample);
    write_cdf(w, kClientQueue.key, m.client_queue);
  });
  write_in_flight(w, log, m);
  write_throughput(w, log, m);
  write_series(w, log);
  write_requests(w, log, m);
  write_pairs(w, "client", client_rows(log, m));
  write_pairs(w, "configuration", configuration_of(log));
}

}  // namespace

StringPairs configuration_of(const RunLog& log) {
  const RunHeader& h = log.header;
  StringPairs pairs = {
      {"Began", wall_words(h.origin_wall_ns)},
      {"Ended", log.stop_reason + (log.truncated ? " (log file cut short)" : "")},
      {"Load", load_words(h)},
      {"Requests asked for", fmt::format("{}", h.num_prompts)},
      {"Dataset", h.dataset + (h.dataset_path.empty() ? "" : " from " + h.dataset_path)},
      {"Model", h.model},
      {"Tokenizer", h.tokenizer},
      {"Server", h.base_url + h.endpoint},
      {"Server version", h.server_version}};
  for (const auto& [name, text] : h.server_parameters) pairs.emplace_back("Server: " + name, text);
  const StringPairs rest = {
      {"Backend", h.backend},
      {"Client's machine", fmt::format("{}, {} cores, {:.0f} GiB", h.host.cpu, h.host.cores,
                                       static_cast<double>(h.host.memory_bytes) / (1 << 30))},
      {"Client's kernel", h.host.kernel},
      {"Client's version", h.tool_version},
      {"Seed", fmt::format("{}", h.seed)},
      {"Dataset hash", h.dataset_hash},
      {"Arrival hash", h.arrival_hash}};
  pairs.insert(pairs.end(), rest.begin(), rest.end());
  pairs.insert(pairs.end(), h.metadata.begin(), h.metadata.end());
  pairs.emplace_back("Command", fmt::format("{}", fmt::join(h.argv, " ")));
  std::erase_if(pairs, [](const auto& pair) { return pair.second.empty(); });
  return pairs;
}

std::string report_json(std::span<const ReportedRun> runs) {
  std::string out;
  JsonWriter w(out);
  put_object(w, [&] {
    w.member("generator", "Saccade " SACCADE_VERSION);
    array_member(w, "runs", runs, [&](const ReportedRun& run) {
      put_object(w, [&] {
        write_run(w, run);
        if (&run != &runs.front()) write_differences(w, runs.front(), run);
      });
    });
  });
  return out;
}

}  // namespace saccade::bench
