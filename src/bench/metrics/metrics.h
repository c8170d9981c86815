// Metrics as pure functions of a run log and a row of rules. Times in seconds unless a name says
// otherwise.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/log/run_log.h"
#include "bench/metrics/metric_rules.h"
#include "bench/metrics/statistics.h"

namespace saccade::bench {

// The instants of one request that the tools disagree about; kNever where it did not happen.
struct StreamInstants {
  Nanos first_choices = kNever;
  Nanos first_output = kNever;   // content, reasoning, tool call, token ids, growth of usage
  Nanos first_text = kNever;     // content or reasoning
  Nanos first_content = kNever;  // not reasoning
  Nanos last_output = kNever;
  Nanos last_choices = kNever;
  Nanos usage = kNever;
  Nanos done = kNever;
  Nanos last_event = kNever;
  std::int32_t first_output_tokens = 1;  // tokens in the first output event; 1 when not said
};
StreamInstants stream_instants(std::span<const LoggedEvent> events);

// One request as the rules see it. Empty: undefined for it.
struct RequestMetrics {
  std::size_t position = 0;              // in RunLog::requests
  ErrorClass error = ErrorClass::kNone;  // strict, whatever the rules call a success
  bool success = false;                  // by the rules

  std::optional<double> ttft;
  std::optional<double> ttft_from_schedule;
  std::optional<double> first_event;   // time to the first event with `choices`
  std::optional<double> first_answer;  // time to the first token that is not reasoning
  std::optional<double> tpot;
  std::optional<double> e2el;
  std::optional<double> e2el_from_schedule;
  double client_queue = 0;  // admitted - scheduled
  double lateness = 0;      // start - admitted
  std::optional<double> connect;
  std::optional<double> upload;  // last body byte sent - connected

  // Tokens and output events differ in number, and nobody says how many each event brought: rules
  // that go by them have no TPOT and no ITL of it.
  bool unsplit = false;

  std::optional<std::int64_t> output_tokens;
  TokenSource output_source = TokenSource::kNone;
  std::optional<std::int64_t> input_tokens;
  std::optional<std::int64_t> image_tokens;  // of the input: the server's count, else the predicted

  // Of RunMetrics::itl_values: this request's inter-token latencies.
  std::size_t first_itl = 0;
  std::size_t num_itl = 0;
};

struct GoodputTarget {
  std::string metric;  // "ttft", "tpot", "e2el"
  double limit_ms = 0;
};
// "ttft:2000"
Result<GoodputTarget> parse_goodput_target(std::string_view text);

struct Goodput {
  std::int64_t good = 0;  // requests that meet every target
  double per_second = 0;  // good / duration
  double attainment = 0;  // good / all requests, failures included; 0 to 1
};

// Longest stretch in which at least `ratio` of the peak number of requests were running.
struct SteadyWindow {
  Nanos begin = 0;
  Nanos end = 0;
  double request_throughput = 0;  // requests that ended in it, per second
  double output_throughput = 0;   // tokens that arrived in it, per second
};

struct MetricOptions {
  MetricRules rules = default_metric_rules();
  std::vector<GoodputTarget> goodput = {};  // empty: not asked
  double steady_ratio = 0.9;
};

// Requests marked as warm-up are left out of everything.
struct RunMetrics {
  MetricRules rules;
  std::vector<RequestMetrics> requests;
  std::vector<double> itl_values;

  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::array<std::int64_t, 13> errors{};  // by ErrorClass, strict
  double duration = 0;

  std::int64_t total_input_tokens = 0;
  std::int64_t total_image_tokens = 0;  // of the input
  std::int64_t total_output_tokens = 0;
  std::int64_t total_cached_tokens = 0;
  std::optional<std::int64_t> total_retokenized;  // when every success has a count
  std::int64_t unknown_input = 0;                 // successes whose prompt tokens nobody knows
  std::int64_t unknown_output = 0;                // successes whose token count nobody knows
  std::int64_t without_tpot = 0;                  // successes with at most one token, or:
  std::int64_t unsplit = 0;                       // RequestMetrics::unsplit

  double request_throughput = 0;
  double input_throughput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  double peak_output_per_s = 0;  // in 1-s bins from the first start
  std::int64_t peak_concurrency = 0;
  double mean_concurrency = 0;  // sum of latencies / duration
  std::optional<Goodput> goodput;
  std::optional<SteadyWindow> steady;

  // Whether sums and rates of tokens mean anything: some success has a count.
  bool input_known() const { return completed == 0 || unknown_input < completed; }
  bool output_known() const { return completed == 0 || unknown_output < completed; }

  // Over successes.
  Distribution ttft, ttft_from_schedule, first_event, first_answer, tpot, itl, e2el,
      e2el_from_schedule, client_queue, connect, upload;
  Distribution chunk_gap;         // raw gaps between output events
  Distribution tokens_per_chunk;  // where the server says
  // Over every request that was begun.
  Distribution lateness;

  std::span<const double> itl_of(const RequestMetrics& m) const {
    return std::span(itl_values).subspan(m.first_itl, m.num_itl);
  }
  double percentile(const Distribution& sample, double percent) const {
    return rules.percentile == PercentileRule::kLinear ? sample.percentile(percent)
                                                       : sample.percentile_by_rank(percent);
  }
};

// Output tokens of a request as they came: by the server's word for each event, else those of a
// success spread over its output events, else one an event.
struct TokenArrival {
  Nanos at;
  double tokens;
};
std::vector<TokenArrival> token_arrivals(const RunLog& log, const RequestMetrics& m);

// Requests in flight: +1 at a start, -1 at an end.
struct ConcurrencyStep {
  Nanos at;
  int change;
  auto operator<=>(const ConcurrencyStep&) const = default;  // at one instant, ends first
};
// Of the requests that began, sorted.
std::vector<ConcurrencyStep> concurrency_steps(const RunLog& log, const RunMetrics& metrics);

RunMetrics compute_metrics(const RunLog& log, const MetricOptions& options = {});

}  // namespace saccade::bench
