#include "bench/metrics/metrics.h"

#include <algorithm>
#include <charconv>

namespace saccade::bench {
namespace {

std::optional<double> between(Nanos from, Nanos to) {
  if (from == kNever || to == kNever) return std::nullopt;
  return seconds(to - from);
}

std::optional<double> stage_gap(const RunLog& log, const RequestRecord& record,
                                std::string_view from, std::string_view to) {
  const auto begin = stage_at(log, record, from);
  const auto end = stage_at(log, record, to);
  if (!begin || !end) return std::nullopt;
  return *end - *begin;
}

std::optional<std::int64_t> known(std::int32_t count) {
  if (count == kUnknownTokens) return std::nullopt;
  return count;
}

bool succeeded(SuccessRule rule, const RequestRecord& record, std::span<const LoggedEvent> events,
               bool usage_requested) {
  if (rule == SuccessRule::kStrict) return error_class(record, events) == ErrorClass::kNone;
  if (record.failure != TransportFailure::kNone || record.status < 200 || record.status > 299)
    return false;
  // Usage that was asked for is no surprise.
  const EventKinds expected =
      static_cast<EventKinds>(kChoicesEvent | kDoneEvent | (usage_requested ? kUsageEvent : 0));
  EventKinds seen = 0;
  bool without_choices = false;
  for (const LoggedEvent& event : events) {
    seen |= event.kinds;
    without_choices = without_choices || (event.kinds & expected) == 0;
  }
  switch (rule) {
    case SuccessRule::kAnyChoices:
      return (seen & kChoicesEvent) != 0;
    case SuccessRule::kDoneChoicesOnly:
      return !record.streamed || ((seen & kDoneEvent) != 0 && !without_choices);
    case SuccessRule::kNoErrorEvent:
      return (seen & kErrorEvent) == 0;
    case SuccessRule::kHttp:
    case SuccessRule::kStrict:
      break;
  }
  return true;
}

std::optional<std::int64_t> tokens_from(TokenSource source, const RequestRecord& record,
                                        std::span<const LoggedEvent> events) {
  switch (source) {
    case TokenSource::kNone:
      return std::nullopt;
    case TokenSource::kUsage:
      return known(record.completion_tokens);
    case TokenSource::kRetokenized:
      return known(record.retokenized_tokens);
    case TokenSource::kRequested:
      return known(record.max_tokens);
    case TokenSource::kOne:
      return 1;
    case TokenSource::kTextEvents:
      return std::count_if(events.begin(), events.end(), [](const LoggedEvent& event) {
        return (event.kinds & (kContentEvent | kReasoningEvent)) != 0;
      });
    case TokenSource::kEvents: {
      std::int64_t sum = 0;
      for (const LoggedEvent& event : events) {
        if (is_output(event) && event.tokens == kUnknownTokens) return std::nullopt;
        sum += std::max(event.tokens, 0);
      }
      return events.empty() ? std::nullopt : std::optional(sum);
    }
  }
  return std::nullopt;
}

// By FirstTokenRule, but for that which goes by the server's own times.
constexpr std::array<Nanos StreamInstants::*, 4> kFirstToken = {
    &StreamInstants::first_output, &StreamInstants::first_text, &StreamInstants::first_content,
    &StreamInstants::first_choices};

Nanos end_at(EndRule rule, const StreamInstants& at, Nanos body_end) {
  const auto first_known = [](std::initializer_list<Nanos> instants) {
    for (const Nanos instant : instants)
      if (instant != kNever) return instant;
    return kNever;
  };
  switch (rule) {
    case EndRule::kDoneOrEnd:
      return first_known({at.done, body_end});
    case EndRule::kLastChoices:
      return first_known({at.last_choices, body_end});
    case EndRule::kLastEvent:
      return first_known({at.last_event, body_end});
    case EndRule::kUsage:
      return first_known({at.usage, at.last_event, body_end});
    case EndRule::kEnd:
      break;
  }
  return body_end;
}

// Where the server says how many tokens an event brought, tokens arrive with those that brought
// some; else with every event that carries output.
bool tokens_are_counted(std::span<const LoggedEvent> events) {
  return std::any_of(events.begin(), events.end(),
                     [](const LoggedEvent& event) { return event.tokens > 0; });
}

bool is_unsplit(std::span<const LoggedEvent> events, const RequestMetrics& m) {
  if (!m.output_tokens || tokens_are_counted(events)) return false;
  const auto carriers = std::count_if(events.begin(), events.end(), is_output);
  // An end token has no text: the event that says why the answer ends brought it.
  const bool bare_end = std::any_of(events.begin(), events.end(), [](const LoggedEvent& event) {
    return (event.kinds & kFinishEvent) != 0 && !is_output(event);
  });
  return *m.output_tokens != carriers && !(bare_end && *m.output_tokens == carriers + 1);
}

std::optional<double> tpot_of(const MetricRules& rules, const RequestMetrics& m,
                              const StreamInstants& at, const RunLog& log,
                              const RequestRecord& record) {
  if (!m.output_tokens) return std::nullopt;
  const std::int64_t tokens = *m.output_tokens;
  std::optional<double> decode;
  std::int64_t over = tokens - 1;
  switch (rules.tpot) {
    case TpotRule::kFirstToLast:
      if (m.unsplit) return std::nullopt;
      decode = between(at.first_output, at.last_output);
      over = tokens - at.first_output_tokens;
      break;
    case TpotRule::kE2elLessTtft:
      if (m.e2el && m.ttft) decode = *m.e2el - *m.ttft;
      break;
    case TpotRule::kFromStart:
      decode = between(record.start, at.last_output);
      over = tokens;
      break;
    case TpotRule::kServer:
      decode = stage_gap(log, record, "first_token", "finished");
      over = tokens;
      break;
  }
  const bool streamed = record.streamed || rules.tpot == TpotRule::kServer;
  if (!decode || over <= 0 || !streamed || *decode < rules.tpot_min_decode_s) return std::nullopt;
  return *decode / static_cast<double>(over);
}

bool brings_tokens(const LoggedEvent& event, bool counted) {
  return counted ? event.tokens > 0 : is_output(event);
}

void append_token_gaps(std::span<const LoggedEvent> events, std::vector<double>& out) {
  const bool counted = tokens_are_counted(events);
  Nanos before = kNever;
  for (const LoggedEvent& event : events) {
    if (!brings_tokens(event, counted)) continue;
    if (before != kNever) {
      const auto tokens = static_cast<std::size_t>(counted ? event.tokens : 1);
      out.insert(out.end(), tokens, seconds(event.at - before) / static_cast<double>(tokens));
    }
    before = event.at;
  }
}

// Gaps before events of `kinds`, but the first; from the last event of `moves`, if there was one.
void append_event_gaps(std::span<const LoggedEvent> events, EventKinds kinds, EventKinds moves,
                       std::vector<double>& out) {
  bool begun = false;
  Nanos before = kNever;
  for (const LoggedEvent& event : events) {
    if ((event.kinds & kinds) != 0) {
      if (begun && before != kNever) out.push_back(seconds(event.at - before));
      begun = true;
    }
    if ((event.kinds & moves) != 0) before = event.at;
  }
}

void append_itl(ItlRule rule, std::span<const LoggedEvent> events, const StreamInstants& at,
                const RequestMetrics& m, std::vector<double>& out) {
  constexpr EventKinds kText = kContentEvent | kReasoningEvent;
  switch (rule) {
    case ItlRule::kPerToken:
      if (!m.unsplit) append_token_gaps(events, out);
      return;
    case ItlRule::kChoicesGaps:
      return append_event_gaps(events, kChoicesEvent, kChoicesEvent, out);
    case ItlRule::kContentGaps:
      return append_event_gaps(events, kContentEvent, kChoicesEvent, out);
    case ItlRule::kTextGaps:
      return append_event_gaps(events, kText, kText, out);
    case ItlRule::kMeanGap:
      if (const auto decode = between(at.first_output, at.last_output);
          decode && m.output_tokens && *m.output_tokens > 1)
        out.push_back(*decode / static_cast<double>(*m.output_tokens - 1));
      return;
    case ItlRule::kNone:
      return;
  }
}

std::optional<std::int64_t> input_tokens_of(InputRule rule, const RequestRecord& record,
                                            const PromptRecord& prompt) {
  const auto usage = known(record.prompt_tokens);
  const auto text = known(prompt.text_tokens);
  std::optional<std::int64_t> local = text;
  if (text && !prompt.images.empty()) {
    const auto images = known(prompt.predicted_image_tokens);
    local = images ? std::optional(*text + *images) : std::nullopt;
  }
  switch (rule) {
    case InputRule::kUsage:
      return usage ? usage : local;
    case InputRule::kLocal:
      return local ? local : usage;
    case InputRule::kTextOnly:
      if (text) return text;
      if (usage && record.image_tokens != kUnknownTokens) return *usage - record.image_tokens;
      return usage;
  }
  return usage;
}

RequestMetrics request_metrics(const RunLog& log, std::size_t position, const MetricRules& rules) {
  const RequestRecord& record = log.requests[position];
  const PromptRecord& prompt = log.prompts[record.prompt];
  const auto events = log.events_of(position);
  const StreamInstants at = stream_instants(events);

  RequestMetrics m;
  m.position = position;
  m.error = error_class(record, events);
  m.success = succeeded(rules.success, record, events, log.header.usage_requested);

  if (rules.first_token == FirstTokenRule::kServer) {
    m.ttft = stage_gap(log, record, "first_scheduled", "first_token");
  } else if (record.streamed) {
    const Nanos first = at.*kFirstToken.at(static_cast<std::size_t>(rules.first_token));
    m.ttft = between(record.start, first);
    m.ttft_from_schedule = between(record.scheduled, first);
  }
  if (!m.ttft && m.success && rules.empty_ttft_is_zero && record.streamed) m.ttft = 0;
  if (record.streamed) {
    m.first_event = between(record.start, at.first_choices);
    m.first_answer = between(record.start, at.first_content);
  }
  const Nanos end = end_at(rules.end, at, record.end);
  m.e2el = between(record.start, end);
  m.e2el_from_schedule = between(record.scheduled, end);
  m.client_queue = between(record.scheduled, record.admitted).value_or(0);
  m.lateness = between(record.admitted, record.start).value_or(0);
  m.connect = between(record.start, record.connected);
  m.upload = between(record.connected, record.sent);

  for (const TokenSource source : rules.output_tokens) {
    m.output_tokens = tokens_from(source, record, events);
    m.output_source = source;
    if (m.output_tokens) break;
  }
  if (!m.output_tokens) m.output_source = TokenSource::kNone;
  m.input_tokens = input_tokens_of(rules.input_tokens, record, prompt);
  m.image_tokens = known(record.image_tokens);
  if (!m.image_tokens) m.image_tokens = known(prompt.predicted_image_tokens);
  m.unsplit = record.streamed && is_unsplit(events, m);
  m.tpot = tpot_of(rules, m, at, log, record);
  return m;
}

std::int64_t peak_of(const std::vector<ConcurrencyStep>& steps) {
  std::int64_t running = 0;
  std::int64_t peak = 0;
  for (const ConcurrencyStep& step : steps) peak = std::max(peak, running += step.change);
  return peak;
}

// What arrived with each event of the successes, as the rule counts: (instant, count).
template <typename Visit>
void visit_arrivals(const RunLog& log, const RunMetrics& metrics, PeakRule rule, Visit visit) {
  for (const RequestMetrics& m : metrics.requests) {
    if (!m.success) continue;
    if (rule == PeakRule::kTokens) {
      for (const auto& [at, tokens] : token_arrivals(log, m)) visit(at, tokens);
      continue;
    }
    for (const LoggedEvent& event : log.events_of(m.position)) {
      const bool counts =
          rule == PeakRule::kChoicesEvents ? (event.kinds & kChoicesEvent) != 0 : is_output(event);
      if (counts) visit(event.at, 1);
    }
  }
}

double peak_output(const RunLog& log, const RunMetrics& metrics, Nanos from, Nanos to) {
  const auto bins = static_cast<std::size_t>(std::max<Nanos>(to - from, 0) / kSecond + 1);
  if (bins > 10'000'000) return 0;  // a log with clocks gone wrong
  std::vector<double> tokens(bins, 0);
  visit_arrivals(log, metrics, metrics.rules.peak, [&](Nanos at, double count) {
    if (at >= from && at <= to) tokens[static_cast<std::size_t>((at - from) / kSecond)] += count;
  });
  return *std::max_element(tokens.begin(), tokens.end());
}

std::optional<SteadyWindow> steady_window(const RunLog& log, const RunMetrics& metrics,
                                          const std::vector<ConcurrencyStep>& steps, double ratio) {
  const double threshold = ratio * static_cast<double>(peak_of(steps));
  SteadyWindow best;
  std::int64_t running = 0;
  Nanos since = kNever;
  for (const ConcurrencyStep& step : steps) {
    running += step.change;
    const bool high = threshold > 0 && static_cast<double>(running) >= threshold;
    if (high && since == kNever) since = step.at;
    if (!high && since != kNever) {
      if (step.at - since > best.end - best.begin) best = {since, step.at, 0, 0};
      since = kNever;
    }
  }
  if (best.end == best.begin) return std::nullopt;
  const double length = seconds(best.end - best.begin);
  for (const RequestMetrics& m : metrics.requests) {
    const Nanos end = log.requests[m.position].end;
    if (m.success && end > best.begin && end <= best.end) best.request_throughput += 1 / length;
  }
  visit_arrivals(log, metrics, PeakRule::kTokens, [&](Nanos at, double count) {
    if (at > best.begin && at <= best.end) best.output_throughput += count / length;
  });
  return best;
}

bool meets(const RequestMetrics& m, const GoodputTarget& target, const MetricRules& rules) {
  const bool from_schedule = rules.deadlines_from_schedule && m.e2el_from_schedule.has_value();
  std::optional<double> value;
  if (target.metric == "ttft") value = from_schedule ? m.ttft_from_schedule : m.ttft;
  if (target.metric == "tpot") value = m.tpot;
  // What there is and nobody could measure has not been met.
  if (target.metric == "tpot" && m.unsplit && !value) return false;
  if (target.metric == "e2el") value = from_schedule ? m.e2el_from_schedule : m.e2el;
  // A condition on what is undefined (TPOT of one token) holds.
  return !value || *value * 1e3 <= target.limit_ms;
}

Goodput goodput_of(const RunMetrics& metrics, const std::vector<GoodputTarget>& targets) {
  Goodput goodput;
  for (const RequestMetrics& m : metrics.requests) {
    goodput.good += m.success && std::all_of(targets.begin(), targets.end(), [&](const auto& t) {
                      return meets(m, t, metrics.rules);
                    });
  }
  if (metrics.duration > 0)
    goodput.per_second = static_cast<double>(goodput.good) / metrics.duration;
  if (!metrics.requests.empty())
    goodput.attainment =
        static_cast<double>(goodput.good) / static_cast<double>(metrics.requests.size());
  return goodput;
}

// What each success has, and where it is gathered.
struct Gathered {
  std::optional<double> RequestMetrics::* value;
  Distribution RunMetrics::* sample;
};
constexpr std::array kGathered = {
    Gathered{&RequestMetrics::ttft, &RunMetrics::ttft},
    Gathered{&RequestMetrics::ttft_from_schedule, &RunMetrics::ttft_from_schedule},
    Gathered{&RequestMetrics::first_event, &RunMetrics::first_event},
    Gathered{&RequestMetrics::first_answer, &RunMetrics::first_answer},
    Gathered{&RequestMetrics::tpot, &RunMetrics::tpot},
    Gathered{&RequestMetrics::e2el, &RunMetrics::e2el},
    Gathered{&RequestMetrics::e2el_from_schedule, &RunMetrics::e2el_from_schedule},
    Gathered{&RequestMetrics::connect, &RunMetrics::connect},
    Gathered{&RequestMetrics::upload, &RunMetrics::upload},
};

void gather(const RunLog& log, RunMetrics& metrics) {
  for (const auto& [value, sample] : kGathered) {
    std::vector<double> values;
    for (const RequestMetrics& m : metrics.requests)
      if (m.success && m.*value) values.push_back(*(m.*value));
    metrics.*sample = Distribution(std::move(values));
  }
  std::vector<double> lateness, client_queue, chunk_gap, tokens_per_chunk;
  for (const RequestMetrics& m : metrics.requests) {
    if (log.requests[m.position].start != kNever) lateness.push_back(m.lateness);
    if (!m.success) continue;
    client_queue.push_back(m.client_queue);
    Nanos before = kNever;
    for (const LoggedEvent& event : log.events_of(m.position)) {
      if (!is_output(event)) continue;
      if (before != kNever) chunk_gap.push_back(seconds(event.at - before));
      if (event.tokens > 0) tokens_per_chunk.push_back(event.tokens);
      before = event.at;
    }
  }
  metrics.lateness = Distribution(std::move(lateness));
  metrics.client_queue = Distribution(std::move(client_queue));
  metrics.chunk_gap = Distribution(std::move(chunk_gap));
  metrics.tokens_per_chunk = Distribution(std::move(tokens_per_chunk));
  metrics.itl = Distribution(metrics.itl_values);
}

// Counts and token sums of one request.
void count(const RequestRecord& record, const RequestMetrics& m, RunMetrics& metrics) {
  ++metrics.errors[static_cast<std::size_t>(m.error)];
  if (!m.success) {
    ++metrics.failed;
    return;
  }
  ++metrics.completed;
  metrics.total_input_tokens += m.input_tokens.value_or(0);
  metrics.total_image_tokens += m.image_tokens.value_or(0);
  metrics.total_output_tokens += m.output_tokens.value_or(0);
  metrics.total_cached_tokens += std::max(record.cached_tokens, 0);
  metrics.unknown_input += !m.input_tokens;
  metrics.unknown_output += !m.output_tokens;
  metrics.without_tpot += !m.tpot && record.streamed;
  metrics.unsplit += m.unsplit && !m.tpot;
  if (metrics.total_retokenized) {
    if (record.retokenized_tokens == kUnknownTokens)
      metrics.total_retokenized.reset();
    else
      *metrics.total_retokenized += record.retokenized_tokens;
  }
}

}  // namespace

StreamInstants stream_instants(std::span<const LoggedEvent> events) {
  StreamInstants at;
  const auto first = [](Nanos& instant, Nanos now) {
    if (instant == kNever) instant = now;
  };
  for (const LoggedEvent& event : events) {
    if (is_output(event)) {
      if (at.first_output == kNever && event.tokens > 0) at.first_output_tokens = event.tokens;
      first(at.first_output, event.at);
      at.last_output = event.at;
    }
    if ((event.kinds & (kContentEvent | kReasoningEvent)) != 0) first(at.first_text, event.at);
    if ((event.kinds & kContentEvent) != 0) first(at.first_content, event.at);
    if ((event.kinds & kChoicesEvent) != 0) {
      first(at.first_choices, event.at);
      at.last_choices = event.at;
    }
    if ((event.kinds & kUsageEvent) != 0) at.usage = event.at;
    if ((event.kinds & kDoneEvent) != 0) first(at.done, event.at);
    if ((event.kinds & kCommentEvent) == 0) at.last_event = event.at;
  }
  return at;
}

std::vector<TokenArrival> token_arrivals(const RunLog& log, const RequestMetrics& m) {
  const auto events = log.events_of(m.position);
  const bool counted = tokens_are_counted(events);
  const auto carriers = std::count_if(events.begin(), events.end(), is_output);
  const bool spread = !counted && carriers > 0 && m.success && m.output_tokens;
  const double each =
      spread ? static_cast<double>(*m.output_tokens) / static_cast<double>(carriers) : 1;
  std::vector<TokenArrival> arrivals;
  for (const LoggedEvent& event : events)
    if (brings_tokens(event, counted))
      arrivals.push_back({event.at, counted ? event.tokens : each});
  return arrivals;
}

std::vector<ConcurrencyStep> concurrency_steps(const RunLog& log, const RunMetrics& metrics) {
  std::vector<ConcurrencyStep> steps;
  for (const RequestMetrics& m : metrics.requests) {
    const RequestRecord& record = log.requests[m.position];
    if (record.start == kNever || record.end == kNever) continue;
    steps.push_back({record.start, +1});
    steps.push_back({record.end, -1});
  }
  std::ranges::sort(steps);
  return steps;
}

Result<GoodputTarget> parse_goodput_target(std::string_view text) {
  const std::size_t colon = text.find(':');
  GoodputTarget target;
  target.metric = text.substr(0, colon);
  if (target.metric != "ttft" && target.metric != "tpot" && target.metric != "e2el")
    return fail(ErrorCode::kInvalid,
                "goodput '{}': the metric must be ttft, tpot or e2el, as in ttft:2000", text);
  const std::string_view number =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const auto [end, code] =
      std::from_chars(number.data(), number.data() + number.size(), target.limit_ms);
  if (code != std::errc() || end != number.data() + number.size() || !(target.limit_ms >= 0))
    return fail(ErrorCode::kInvalid, "goodput '{}': '{}' is not a number of milliseconds", text,
                number);
  return target;
}

RunMetrics compute_metrics(const RunLog& log, const MetricOptions& options) {
  RunMetrics metrics;
  metrics.rules = options.rules;
  metrics.total_retokenized = 0;
  Nanos first_start = kNever;
  Nanos last_end = kNever;
  double latencies = 0;
  for (std::size_t position = 0; position < log.requests.size(); ++position) {
    const RequestRecord& record = log.requests[position];
    if (record.warmup) continue;
    RequestMetrics m = request_metrics(log, position, options.rules);
    m.first_itl = metrics.itl_values.size();
    const auto events = log.events_of(position);
    if (m.success)
      append_itl(options.rules.itl, events, stream_instants(events), m, metrics.itl_values);
    m.num_itl = metrics.itl_values.size() - m.first_itl;
    count(record, m, metrics);
    if (m.success) latencies += m.e2el.value_or(0);
    if (record.start != kNever)
      first_start = first_start == kNever ? record.start : std::min(first_start, record.start);
    if (record.end != kNever) last_end = std::max(last_end, record.end);
    metrics.requests.push_back(m);
  }
  gather(log, metrics);
  if (metrics.completed == 0) metrics.total_retokenized.reset();

  const Nanos from = options.rules.duration == DurationRule::kOriginToLastEnd
                         ? std::min<Nanos>(0, first_start)
                         : first_start;
  metrics.duration = first_start == kNever ? 0 : between(from, last_end).value_or(0);
  if (metrics.duration > 0) {
    const auto rate = [&](std::int64_t n) { return static_cast<double>(n) / metrics.duration; };
    metrics.request_throughput = rate(metrics.completed);
    metrics.input_throughput = rate(metrics.total_input_tokens);
    metrics.output_throughput = rate(metrics.total_output_tokens);
    metrics.total_token_throughput = rate(metrics.total_input_tokens + metrics.total_output_tokens);
    metrics.mean_concurrency = latencies / metrics.duration;
    metrics.peak_output_per_s = peak_output(log, metrics, first_start, last_end);
  }
  const std::vector<ConcurrencyStep> steps = concurrency_steps(log, metrics);
  metrics.peak_concurrency = peak_of(steps);
  metrics.steady = steady_window(log, metrics, steps, options.steady_ratio);
  if (!options.goodput.empty()) metrics.goodput = goodput_of(metrics, options.goodput);
  return metrics;
}

}  // namespace saccade::bench
