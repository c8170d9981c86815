#include "bench/load/server/run_health.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include "bench/metrics/metric_table.h"
#include "bench/reports/vllm_report.h"

namespace saccade::bench {
namespace {

constexpr double kLatenessLimit = 1e-3;  // s, at p99
constexpr double kLoopLagLimit = 1e-3;   // s, at p99
constexpr double kCpuLimit = 0.85;       // of the client's threads

// Least-squares slope of y over x, and its t value by the effective sample size of the residuals,
// which are autocorrelated.
struct Trend {
  double slope = 0;
  double t = 0;
};

Trend trend_of(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = static_cast<double>(x.size());
  if (x.size() < 10) return {};
  double mean_x = 0;
  double mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  double sxx = 0;
  double sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sxx += (x[i] - mean_x) * (x[i] - mean_x);
    sxy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (sxx == 0) return {};
  Trend trend;
  trend.slope = sxy / sxx;
  std::vector<double> residuals(x.size());
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    residuals[i] = y[i] - mean_y - trend.slope * (x[i] - mean_x);
    squares += residuals[i] * residuals[i];
  }
  const double effective_sample_size = std::max(3.0, effective_samples(residuals));
  const double error = std::sqrt(squares / (effective_sample_size - 2) / sxx);
  trend.t = error > 0 ? trend.slope / error : std::copysign(1e9, trend.slope);
  return trend;
}

// Scheduled instants and requests in flight just before them, in order.
void in_flight_at_arrivals(const RunLog& log, const RunMetrics& metrics, std::vector<double>& at,
                           std::vector<double>& running) {
  std::vector<Nanos> ends;
  for (const RequestMetrics& m : metrics.requests)
    if (log.requests[m.position].end != kNever) ends.push_back(log.requests[m.position].end);
  std::sort(ends.begin(), ends.end());
  std::vector<Nanos> arrivals;
  for (const RequestMetrics& m : metrics.requests)
    if (log.requests[m.position].scheduled != kNever)
      arrivals.push_back(log.requests[m.position].scheduled);
  std::sort(arrivals.begin(), arrivals.end());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const auto ended = std::upper_bound(ends.begin(), ends.end(), arrivals[i]) - ends.begin();
    at.push_back(seconds(arrivals[i]));
    running.push_back(static_cast<double>(i) - static_cast<double>(ended));
  }
}

std::string percentile_row(std::string_view name, const RunMetrics& metrics,
                           const Distribution& sample, double percent) {
  std::string out =
      fmt::format("  {:<28} {:>10.2f}", fmt::format("P{} {}", percentile_word(percent), name),
                  metrics.percentile(sample, percent) * 1e3);
  const auto interval = percentile_interval(sample, percent);
  if (interval)
    return out + fmt::format("  [{:.2f}, {:.2f}]  n {}\n", interval->low * 1e3,
                             interval->high * 1e3, sample.size());
  return out + fmt::format("  too few samples: n {}, {} needed\n", sample.size(),
                           samples_needed(percent));
}

// What a class means where the request itself has nothing to say.
std::string_view usual_reason(ErrorClass error) {
  switch (error) {
    case ErrorClass::kEmpty:
      return "the answer ended well but holds no token";
    case ErrorClass::kTruncated:
      return "the stream ended without finish_reason and [DONE]";
    default:
      return "";
  }
}

struct FailureClass {
  ErrorClass error;
  std::int64_t count;
  std::string_view reason;  // of its first request
};

std::vector<FailureClass> failure_classes(const RunLog& log, const RunMetrics& metrics) {
  constexpr std::size_t kShown = 160;
  std::vector<FailureClass> classes;
  for (std::size_t i = 1; i < metrics.errors.size(); ++i) {
    if (metrics.errors[i] == 0) continue;
    const auto error = static_cast<ErrorClass>(i);
    const auto first = std::find_if(metrics.requests.begin(), metrics.requests.end(),
                                    [error](const RequestMetrics& m) { return m.error == error; });
    std::string_view said;
    if (first != metrics.requests.end()) said = log.text_of(log.requests[first->position].error);
    if (said.empty()) said = usual_reason(error);
    classes.push_back({error, metrics.errors[i], said.substr(0, kShown)});
  }
  return classes;
}

std::string errors_text(const RunLog& log, const RunMetrics& metrics) {
  std::string out;
  for (const FailureClass& failed : failure_classes(log, metrics))
    out += fmt::format("  {:<28} {:>10}{}{}\n", name_of(failed.error), failed.count,
                       failed.reason.empty() ? "" : "  ", failed.reason);
  return out.empty() ? out : "Errors:\n" + out;
}

std::string latency_text(const RunMetrics& metrics) {
  std::string out = "Percentiles (ms) with 95 % intervals:\n";
  for (const Latency& latency : kLatencies) {
    const Distribution& sample = metrics.*latency.sample;
    // The intervals are of values that are independent; ITLs of one answer are not.
    if (sample.empty() || latency.key == "itl") continue;
    for (const double p : {50.0, 95.0, 99.0})
      out += percentile_row(latency.name, metrics, sample, p);
  }
  return out;
}

std::string tokens_text(const RunMetrics& metrics) {
  std::array<std::int64_t, 7> sources{};
  for (const RequestMetrics& m : metrics.requests)
    if (m.success) ++sources[static_cast<std::size_t>(m.output_source)];
  std::string out = "Tokens:\n";
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i] > 0)
      out += fmt::format("  {:<28} {:>10} requests\n",
                         fmt::format("output counted by {}", name_of(static_cast<TokenSource>(i))),
                         sources[i]);
  if (metrics.total_retokenized && *metrics.total_retokenized != metrics.total_output_tokens)
    out += fmt::format("  {:<28} {:>10}\n", "output by own tokenizer", *metrics.total_retokenized);
  if (metrics.total_image_tokens > 0)
    out += fmt::format("  {:<28} {:>10} of {} input tokens\n", "image tokens",
                       metrics.total_image_tokens, metrics.total_input_tokens);
  if (metrics.tokens_per_chunk.mean() > 1)
    out += fmt::format("  {:<28} {:>10.2f}\n", "tokens per chunk", metrics.tokens_per_chunk.mean());
  if (metrics.without_tpot > 0)
    out += fmt::format("  {:<28} {:>10}\n", "requests without TPOT", metrics.without_tpot);
  if (metrics.unsplit > 0)
    out += fmt::format(
        "  {} answers have other numbers of tokens than of events, and the server does not say "
        "how\n"
        "  many each event brought: they have no TPOT and no ITL\n",
        metrics.unsplit);
  return out;
}

std::string client_text(const ClientVerdict& v) {
  std::string out =
      v.limiting ? "Client: WARNING, it may have limited this run\n" : "Client: not limiting\n";
  for (const std::string& reason : v.reasons) out += "  " + reason + "\n";
  out += fmt::format(
      "  lateness p99 {:.3f} ms, max {:.3f} ms; loop lag p99 {:.3f} ms; CPU {:.0f} %\n",
      v.lateness_p99_s * 1e3, v.lateness_max_s * 1e3, v.loop_lag_p99_s * 1e3, v.cpu_share * 100);
  return out;
}

std::string server_text(const OverloadVerdict& overload, const CacheVerdict& cache) {
  std::string out;
  if (overload.overloaded)
    out += fmt::format(
        "Server: OVERLOADED, the queue grew to the end ({:+.2f} requests in flight and {:+.1f} ms "
        "of "
        "TTFT per second, {} unfinished)\n",
        overload.in_flight_slope, overload.ttft_slope * 1e3, overload.unfinished);
  if (cache.contaminated)
    out += fmt::format(
        "Cache: WARNING, {:.1f} % of the prompt tokens were cached although their "
        "content is new in this run\n",
        cache.cached_share * 100);
  else if (cache.cached_tokens > 0)
    out +=
        fmt::format("Cache: {:.1f} % of the prompt tokens were cached\n", cache.cached_share * 100);
  if (cache.repeated_prompts > 0)
    out += fmt::format("Cache: {} requests repeat a prompt of this run\n", cache.repeated_prompts);
  return out;
}

std::string provenance_text(const RunLog& log) {
  const RunHeader& h = log.header;
  std::string out = "Provenance:\n";
  const auto row = [&](std::string_view name, std::string_view text) {
    if (!text.empty()) out += fmt::format("  {:<12} {}\n", name, text);
  };
  row("command", fmt::format("{}", fmt::join(h.argv, " ")));
  row("seed", fmt::to_string(h.seed));
  row("version", h.tool_version);
  row("host", fmt::format("{} {} x{} {}", h.host.name, h.host.cpu, h.host.cores, h.host.kernel));
  row("server", fmt::format("{}{} {}", h.base_url, h.endpoint, h.server_version));
  for (const auto& [key, text] : h.server_parameters) row("", fmt::format("{}={}", key, text));
  row("model", h.model);
  row("dataset", fmt::format("{} {} {}", h.dataset, h.dataset_path, h.dataset_hash));
  row("arrivals", fmt::format("{} {}", h.arrivals, h.arrival_hash));
  if (log.stop_reason != "complete") row("stopped", log.stop_reason);
  if (log.truncated) row("log", "the file ends early");
  return out;
}

}  // namespace

ClientVerdict judge_client(const RunLog& log, const RunMetrics& metrics) {
  ClientVerdict v;
  v.lateness_p99_s = metrics.lateness.percentile(99);
  v.lateness_max_s = metrics.lateness.max();
  v.loop_lag_p99_s = seconds(log.client.loop_lag_p99);
  const double available = log.client.wall_seconds * log.client.threads;
  if (available > 0) v.cpu_share = log.client.cpu_seconds / available;
  const auto judge = [&](double value, double limit, std::string_view what) {
    if (value <= limit) return;
    v.limiting = true;
    v.reasons.push_back(fmt::format("{} is {:.3g}, limit {:g}", what, value, limit));
  };
  judge(v.lateness_p99_s * 1e3, kLatenessLimit * 1e3, "p99 of starts behind schedule (ms)");
  judge(v.loop_lag_p99_s * 1e3, kLoopLagLimit * 1e3, "p99 of event loop lag (ms)");
  judge(v.cpu_share, kCpuLimit, "share of the client's CPU in use");
  return v;
}

OverloadVerdict judge_overload(const RunLog& log, const RunMetrics& metrics) {
  OverloadVerdict v;
  v.unfinished = metrics.errors[static_cast<std::size_t>(ErrorClass::kUnfinished)];
  if (log.header.arrivals == "closed-loop" || log.header.arrivals == "inf") return v;
  std::vector<double> at;
  std::vector<double> running;
  in_flight_at_arrivals(log, metrics, at, running);
  const Trend queue = trend_of(at, running);
  std::vector<double> due;
  std::vector<double> ttft;
  for (const RequestMetrics& m : metrics.requests) {
    if (!m.success || !m.ttft_from_schedule) continue;
    due.push_back(seconds(log.requests[m.position].scheduled));
    ttft.push_back(*m.ttft_from_schedule);
  }
  const Trend wait = trend_of(due, ttft);
  v.in_flight_slope = queue.slope;
  v.ttft_slope = wait.slope;
  // Both must grow beyond doubt, and by enough to matter: the run's span doubles the typical TTFT.
  const double span = at.empty() ? 0 : at.back() - at.front();
  const bool grows = queue.t > 4 && (wait.t > 4 || ttft.empty());
  v.overloaded = grows && queue.slope * span > 5 &&
                 (ttft.empty() || wait.slope * span > Distribution(ttft).percentile(10));
  return v;
}

CacheVerdict judge_cache(const RunLog& log, const RunMetrics& metrics) {
  CacheVerdict v;
  std::unordered_set<std::string_view> seen;
  std::int64_t prompt_tokens = 0;
  std::int64_t new_cached = 0;
  std::int64_t new_prompt = 0;
  for (const RequestMetrics& m : metrics.requests) {
    const RequestRecord& r = log.requests[m.position];
    const std::string_view hash = log.prompts[r.prompt].content_hash;
    const bool fresh = hash.empty() || seen.insert(hash).second;
    v.repeated_prompts += !fresh;
    if (!m.success || r.cached_tokens == kUnknownTokens || r.prompt_tokens <= 0) continue;
    v.cached_tokens += r.cached_tokens;
    prompt_tokens += r.prompt_tokens;
    // A later turn of a conversation is meant to be found in the cache.
    if (!fresh || r.turn > 0) continue;
    new_cached += r.cached_tokens;
    new_prompt += r.prompt_tokens;
  }
  if (prompt_tokens > 0)
    v.cached_share = static_cast<double>(v.cached_tokens) / static_cast<double>(prompt_tokens);
  // After a reset what was found is what the run's own requests share.
  v.reset = log.header.cache_reset;
  v.contaminated = !v.reset && new_prompt > 0 && new_cached * 10 > new_prompt &&
                   log.header.dataset.find("prefix") == std::string::npos;
  return v;
}

std::string failures_line(const RunLog& log, const RunMetrics& metrics) {
  std::int64_t failures = 0;
  std::string classes;
  for (const FailureClass& failed : failure_classes(log, metrics)) {
    failures += failed.count;
    classes += fmt::format("{}{} {}{}{}", classes.empty() ? ": " : "; ", failed.count,
                           name_of(failed.error), failed.reason.empty() ? "" : ": ", failed.reason);
  }
  if (classes.empty()) return classes;
  return fmt::format("{} of {} requests failed{}", failures, metrics.requests.size(), classes);
}

std::string health_text(const RunLog& log, const RunMetrics& metrics) {
  std::string out = fmt::format("Definitions: {}\n", metrics.rules.name);
  if (metrics.goodput)
    out += fmt::format("Goodput: {} good requests, {:.2f} req/s, attainment {:.1f} %\n",
                       metrics.goodput->good, metrics.goodput->per_second,
                       metrics.goodput->attainment * 100);
  out += errors_text(log, metrics);
  out += latency_text(metrics);
  out += tokens_text(metrics);
  if (metrics.steady)
    out += fmt::format("Steady state: {:.2f} s with {:.2f} req/s, {:.2f} tok/s\n",
                       seconds(metrics.steady->end - metrics.steady->begin),
                       metrics.steady->request_throughput, metrics.steady->output_throughput);
  out += client_text(judge_client(log, metrics));
  out += server_text(judge_overload(log, metrics), judge_cache(log, metrics));
  return out + provenance_text(log);
}

}  // namespace saccade::bench
