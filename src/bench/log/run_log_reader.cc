// Reading the run log: docs/run-format.md. A file may come from anywhere: every field is checked.
#include <algorithm>
#include <array>
#include <limits>

#include "base/json.h"
#include "bench/datasets/text_file.h"
#include "bench/log/run_log.h"

namespace saccade::bench {
namespace {

constexpr std::int64_t kInstantLimit = 1'000'000'000'000'000'000;  // 31 years either way
// Of all events: each token is a latency to be sorted, whatever the size of the file.
constexpr std::int64_t kMaxEventTokens = std::int64_t{1} << 27;
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kUint32Max = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

// Absent members keep their default.

Result<std::int64_t> int_in(const json::value& v, std::string_view name, std::int64_t low,
                            std::int64_t high) {
  if (!v.is_int64())
    return fail(ErrorCode::kInvalid, "'{}' is {}, an integer is required", name,
                v.is_uint64() ? "too large a number" : json::kind_name(v));
  const std::int64_t number = v.get_int64();
  if (number < low || number > high)
    return fail(ErrorCode::kInvalid, "'{}' is {}, allowed are {} to {}", name, number, low, high);
  return number;
}

template <typename Integer>
Result<void> take_int(const json::object& from, std::string_view name, Integer& into,
                      std::int64_t low, std::int64_t high) {
  if (const json::value* v = json::find(from, name)) {
    TRY(const std::int64_t number, int_in(*v, name, low, high));
    into = static_cast<Integer>(number);
  }
  return {};
}

// A number, or "inf".
Result<void> take_double(const json::object& from, std::string_view name, double& into) {
  const json::value* v = json::find(from, name);
  if (v != nullptr && v->is_string() && v->get_string() == "inf") {
    into = std::numeric_limits<double>::infinity();
    return {};
  }
  TRY(into, json::get_double_or(from, name, into));
  return {};
}

Result<void> take_member(const json::object& from, std::string_view name, std::string& into) {
  TRY(into, json::get_string_or(from, name, into));
  return {};
}

Result<void> take_bool(const json::object& from, std::string_view name, bool& into) {
  TRY(into, json::get_bool_or(from, name, into));
  return {};
}

// Empty where there is none.
Result<const json::array*> array_of(const json::object& from, std::string_view name) {
  static const json::array kNone;
  const json::value* v = json::find(from, name);
  if (v == nullptr) return &kNone;
  if (!v->is_array())
    return fail(ErrorCode::kInvalid, "'{}' is {}, an array is required", name, json::kind_name(*v));
  return &v->get_array();
}

// Empty where there is none.
Result<const json::object*> object_of(const json::object& from, std::string_view name) {
  static const json::object kNone;
  const json::value* v = json::find(from, name);
  if (v == nullptr) return &kNone;
  if (!v->is_object())
    return fail(ErrorCode::kInvalid, "'{}' is {}, an object is required", name,
                json::kind_name(*v));
  return &v->get_object();
}

Result<void> take_pairs(const json::object& from, std::string_view name, StringPairs& into) {
  TRY(const json::object* pairs, object_of(from, name));
  for (const auto& member : *pairs) {
    if (!member.value().is_string())
      return fail(ErrorCode::kInvalid, "'{}.{}' is {}, a string is required", name,
                  std::string_view(member.key()), json::kind_name(member.value()));
    into.emplace_back(member.key(), member.value().get_string());
  }
  return {};
}

// Object of numbers.
template <typename Add>
Result<void> take_numbers(const json::object& from, std::string_view name, Add add) {
  TRY(const json::object* numbers, object_of(from, name));
  for (const auto& member : *numbers) {
    const std::string_view key = member.key();
    double number = 0;
    TRY_DO(take_double(*numbers, key, number));
    add(key, number);
  }
  return {};
}

Result<Nanos> instant_from(const json::value& v, std::string_view name) {
  if (v.is_null()) return kNever;
  return int_in(v, name, -kInstantLimit, kInstantLimit);
}

Result<void> take_host(const json::object& line, HostFacts& host) {
  TRY(const json::object* from, object_of(line, "host"));
  TRY_DO(take_member(*from, "name", host.name));
  TRY_DO(take_member(*from, "cpu", host.cpu));
  TRY_DO(take_int(*from, "cores", host.cores, 0, kInt32Max));
  TRY_DO(take_int(*from, "memory_bytes", host.memory_bytes, 0, kInt64Max));
  return take_member(*from, "kernel", host.kernel);
}

Result<void> take_seed(const json::object& line, std::uint64_t& seed) {
  const json::value* v = json::find(line, "seed");
  if (v != nullptr && v->is_uint64()) {
    seed = v->get_uint64();
    return {};
  }
  return take_int(line, "seed", seed, 0, kInt64Max);
}

Result<void> read_header(const json::object& line, RunHeader& h) {
  std::int64_t version = 0;
  TRY_DO(take_int(line, "saccade_run", version, 0, kInt64Max));
  if (version != kRunFormatVersion)
    return fail(ErrorCode::kUnsupported, "run log version {}, this program reads {}", version,
                kRunFormatVersion);
  TRY(const json::array* argv, array_of(line, "argv"));
  for (const json::value& word : *argv) {
    if (!word.is_string())
      return fail(ErrorCode::kInvalid, "'argv' holds {}, strings are required",
                  json::kind_name(word));
    h.argv.emplace_back(word.get_string());
  }
  TRY_DO(take_seed(line, h.seed));
  TRY_DO(take_int(line, "origin_wall_ns", h.origin_wall_ns, 0, kInt64Max));
  TRY_DO(take_host(line, h.host));
  const std::array<std::pair<std::string_view, std::string*>, 14> texts = {{
      {"tool_version", &h.tool_version},
      {"backend", &h.backend},
      {"base_url", &h.base_url},
      {"endpoint", &h.endpoint},
      {"model", &h.model},
      {"tokenizer", &h.tokenizer},
      {"label", &h.label},
      {"server_version", &h.server_version},
      {"dataset", &h.dataset},
      {"dataset_path", &h.dataset_path},
      {"dataset_hash", &h.dataset_hash},
      {"arrivals", &h.arrivals},
      {"arrival_hash", &h.arrival_hash},
      {"ramp_up_strategy", &h.ramp_up_strategy},
  }};
  for (const auto& [name, into] : texts) TRY_DO(take_member(line, name, *into));
  TRY_DO(take_pairs(line, "server_parameters", h.server_parameters));
  TRY_DO(take_pairs(line, "metadata", h.metadata));
  TRY_DO(take_double(line, "request_rate", h.request_rate));
  TRY_DO(take_double(line, "burstiness", h.burstiness));
  TRY_DO(take_int(line, "max_concurrency", h.max_concurrency, 0, kInt64Max));
  TRY_DO(take_double(line, "ramp_up_start_rps", h.ramp_up_start_rps));
  TRY_DO(take_double(line, "ramp_up_end_rps", h.ramp_up_end_rps));
  TRY_DO(take_bool(line, "usage_requested", h.usage_requested));
  TRY_DO(take_bool(line, "cache_reset", h.cache_reset));
  // Logs from before this member say it by the command alone.
  if (std::ranges::find(h.argv, "--reset-cache") != h.argv.end()) h.cache_reset = true;
  return take_int(line, "num_prompts", h.num_prompts, 0, kInt64Max);
}

Result<PromptImage> read_image(const json::value& v) {
  if (!v.is_array() || v.get_array().size() != 4 || !v.get_array()[3].is_string())
    return fail(ErrorCode::kInvalid, "an image must be [width, height, bytes, \"sha256\"]");
  const json::array& fields = v.get_array();
  PromptImage image;
  TRY(const std::int64_t width, int_in(fields[0], "width", 0, kInt32Max));
  TRY(const std::int64_t height, int_in(fields[1], "height", 0, kInt32Max));
  TRY(const std::int64_t bytes, int_in(fields[2], "bytes", 0, kInt64Max));
  image.width = static_cast<std::int32_t>(width);
  image.height = static_cast<std::int32_t>(height);
  image.bytes = static_cast<std::uint64_t>(bytes);
  image.sha256 = fields[3].get_string();
  return image;
}

Result<void> read_prompt(const json::object& line, RunLog& log) {
  const auto index = static_cast<std::int64_t>(log.prompts.size());
  std::int64_t stated = 0;
  TRY_DO(take_int(line, "prompt", stated, index, index));
  PromptRecord p;
  TRY_DO(take_member(line, "row", p.row_id));
  TRY_DO(take_member(line, "hash", p.content_hash));
  TRY_DO(take_member(line, "label", p.label));
  TRY_DO(take_int(line, "text_tokens", p.text_tokens, -1, kInt32Max));
  TRY_DO(take_int(line, "image_tokens", p.predicted_image_tokens, -1, kInt32Max));
  TRY(const json::array* images, array_of(line, "images"));
  for (const json::value& v : *images) {
    TRY(PromptImage image, read_image(v));
    p.images.push_back(std::move(image));
  }
  TRY_DO(take_member(line, "text", p.text));
  TRY_DO(take_member(line, "reference", p.reference));
  log.prompts.push_back(std::move(p));
  return {};
}

Result<void> read_times(const json::object& line, RequestRecord& r) {
  TRY(const json::array* times, array_of(line, "times"));
  const std::array<Nanos*, 7> into = {&r.scheduled, &r.admitted, &r.start, &r.connected,
                                      &r.sent,      &r.headers,  &r.end};
  if (times->size() != into.size())
    return fail(ErrorCode::kInvalid, "'times' must be an array of {} instants", into.size());
  for (std::size_t i = 0; i < into.size(); ++i) {
    TRY(*into[i], instant_from((*times)[i], "times"));
  }
  return {};
}

Result<void> read_usage(const json::object& line, RequestRecord& r) {
  if (json::find(line, "usage") == nullptr) return {};
  TRY(const json::array* usage, array_of(line, "usage"));
  const std::array<std::int32_t*, 5> into = {&r.prompt_tokens, &r.completion_tokens,
                                             &r.cached_tokens, &r.image_tokens,
                                             &r.reasoning_tokens};
  if (usage->size() != into.size())
    return fail(ErrorCode::kInvalid, "'usage' must be an array of {} counts", into.size());
  for (std::size_t i = 0; i < into.size(); ++i) {
    if ((*usage)[i].is_null()) continue;
    TRY(const std::int64_t count, int_in((*usage)[i], "usage", 0, kInt32Max));
    *into[i] = static_cast<std::int32_t>(count);
  }
  return {};
}

Result<void> read_failure(const json::object& line, RequestRecord& r) {
  std::string text;
  TRY_DO(take_member(line, "finish_reason", text));
  r.finish_reason = finish_reason_from(text);
  text.clear();
  TRY_DO(take_member(line, "failure", text));
  if (text.empty()) return {};
  for (int i = 0; i <= static_cast<int>(TransportFailure::kUnfinished); ++i) {
    const auto failure = static_cast<TransportFailure>(i);
    if (text != name_of(failure)) continue;
    r.failure = failure;
    return {};
  }
  return fail(ErrorCode::kInvalid, "'failure' is \"{}\", which is none of the format's", text);
}

Result<void> read_events(const json::object& line, std::uint32_t request,
                         std::vector<LoggedEvent>& events, std::int64_t& all_tokens) {
  TRY(const json::array* flat, array_of(line, "events"));
  if (flat->size() % 4 != 0)
    return fail(ErrorCode::kInvalid, "'events' has {} numbers, four an event are required",
                flat->size());
  Nanos at = 0;
  for (std::size_t i = 0; i < flat->size(); i += 4) {
    const std::int64_t low = i == 0 ? -kInstantLimit : 0;
    TRY(const Nanos gap, int_in((*flat)[i], "events: instant", low, kInstantLimit));
    at += gap;
    if (at > kInstantLimit)
      return fail(ErrorCode::kInvalid, "'events': instant {} is too late", at);
    TRY(const std::int64_t bytes, int_in((*flat)[i + 1], "events: bytes", 0, kUint32Max));
    TRY(const std::int64_t tokens, int_in((*flat)[i + 2], "events: tokens", -1, kInt32Max));
    TRY(const std::int64_t kinds, int_in((*flat)[i + 3], "events: kinds", 0, kAllEventKinds));
    all_tokens += std::max<std::int64_t>(0, tokens);
    if (all_tokens > kMaxEventTokens)
      return fail(ErrorCode::kInvalid, "'events': those so far bring {} tokens, the limit is {}",
                  all_tokens, kMaxEventTokens);
    events.push_back({at, request, static_cast<std::uint32_t>(bytes),
                      static_cast<std::int32_t>(tokens), static_cast<EventKinds>(kinds)});
  }
  return {};
}

TextSpan keep_text(RunLog& log, const std::string& text) {
  const TextSpan span{log.text.size(), static_cast<std::uint32_t>(text.size())};
  log.text += text;
  return span;
}

Result<void> read_request(const json::object& line, RunLog& log, std::int64_t& all_tokens) {
  if (log.prompts.empty()) return fail(ErrorCode::kInvalid, "a request before any prompt");
  RequestRecord r;
  const std::int64_t next = log.requests.empty() ? 0 : std::int64_t{log.requests.back().index} + 1;
  TRY_DO(take_int(line, "request", r.index, next, kUint32Max));
  TRY_DO(take_int(line, "prompt", r.prompt, 0, std::int64_t(log.prompts.size()) - 1));
  TRY_DO(take_int(line, "conversation", r.conversation, -1, kInt32Max));
  TRY_DO(take_int(line, "turn", r.turn, 0, kInt32Max));
  TRY_DO(read_times(line, r));
  TRY_DO(take_int(line, "status", r.status, 0, 999));
  TRY_DO(read_failure(line, r));
  TRY_DO(take_bool(line, "streamed", r.streamed));
  TRY_DO(take_bool(line, "reused_connection", r.reused_connection));
  TRY_DO(take_bool(line, "warmup", r.warmup));
  TRY_DO(read_usage(line, r));
  TRY_DO(take_int(line, "retokenized", r.retokenized_tokens, -1, kInt32Max));
  TRY_DO(take_int(line, "max_tokens", r.max_tokens, -1, kInt32Max));
  TRY_DO(take_int(line, "body_bytes", r.body_bytes, 0, kInt64Max));
  TRY_DO(take_int(line, "response_bytes", r.response_bytes, 0, kInt64Max));
  for (const auto& [name, span] : {std::pair{"answer", &r.answer},
                                   {"reasoning", &r.reasoning},
                                   {"error", &r.error},
                                   {"first_event", &r.first_event}}) {
    std::string text;
    TRY_DO(take_member(line, name, text));
    *span = keep_text(log, text);
  }
  r.first_stage = log.stages.size();
  TRY_DO(take_numbers(line, "stages", [&](std::string_view name, double number) {
    log.stages.push_back({std::string(name), number});
  }));
  r.num_stages = static_cast<std::uint32_t>(log.stages.size() - r.first_stage);
  TRY_DO(read_events(line, r.index, log.events, all_tokens));
  log.requests.push_back(r);
  log.event_begin.push_back(log.events.size());
  return {};
}

Result<void> read_sample(const json::object& line, RunLog& log) {
  Sample sample;
  TRY(sample.at, instant_from(line.at("sample"), "sample"));
  TRY_DO(take_member(line, "source", sample.source));
  TRY_DO(take_numbers(line, "values", [&](std::string_view name, double number) {
    sample.values.emplace_back(name, number);
  }));
  log.samples.push_back(std::move(sample));
  return {};
}

Result<void> read_client(const json::object& line, ClientLoad& c) {
  TRY(const json::object* from, object_of(line, "client"));
  TRY_DO(take_int(*from, "threads", c.threads, 0, kInt32Max));
  TRY_DO(take_double(*from, "wall_seconds", c.wall_seconds));
  TRY_DO(take_double(*from, "cpu_seconds", c.cpu_seconds));
  TRY_DO(take_int(*from, "connects", c.connects, 0, kInt64Max));
  TRY_DO(take_int(*from, "bytes_sent", c.bytes_sent, 0, kInt64Max));
  TRY_DO(take_int(*from, "bytes_received", c.bytes_received, 0, kInt64Max));
  TRY_DO(take_int(*from, "loop_lag_p50", c.loop_lag_p50, -kInstantLimit, kInstantLimit));
  TRY_DO(take_int(*from, "loop_lag_p99", c.loop_lag_p99, -kInstantLimit, kInstantLimit));
  return take_int(*from, "loop_lag_max", c.loop_lag_max, -kInstantLimit, kInstantLimit);
}

// What the lines before have to say about the next one.
struct Reading {
  bool ended = false;  // by the end line, after which nothing may follow
  std::int64_t event_tokens = 0;
};

Result<void> read_line(std::string_view text, bool first, RunLog& log, Reading& reading) {
  TRY(const json::value v, json::parse(text));
  if (!v.is_object()) return fail(ErrorCode::kInvalid, "not an object");
  const json::object& line = v.get_object();
  if (reading.ended) return fail(ErrorCode::kInvalid, "more lines after the end line");
  const bool header = line.contains("saccade_run");
  if (first && !header)
    return fail(ErrorCode::kInvalid,
                "not a saccade run log: the first line must be its 'saccade_run' header");
  if (!first && header) return fail(ErrorCode::kInvalid, "a second header");
  if (first) return read_header(line, log.header);
  if (line.contains("request")) return read_request(line, log, reading.event_tokens);
  if (line.contains("prompt")) return read_prompt(line, log);
  if (line.contains("sample")) return read_sample(line, log);
  if (line.contains("client")) return read_client(line, log.client);
  if (line.contains("end")) {
    reading.ended = true;
    const auto count = static_cast<std::int64_t>(log.requests.size());
    std::int64_t stated = count;
    TRY_DO(take_int(line, "requests", stated, count, count));
    return take_member(line, "end", log.stop_reason);
  }
  return fail(ErrorCode::kInvalid, "none of prompt, request, sample, client, end");
}

}  // namespace

Result<RunLog> parse_run_log(std::string_view text) {
  if (text.empty()) return fail(ErrorCode::kInvalid, "the run log is empty");
  RunLog log;
  log.event_begin.push_back(0);
  Reading reading;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t length = text.find('\n');
    const bool cut = length == std::string_view::npos;
    // The header must be whole; of the rest, a last line without its LF is taken as not written.
    if (cut && number > 1) break;
    auto read = read_line(text.substr(0, length), number == 1, log, reading);
    if (!read) return fail_within(fmt::format("line {}", number), std::move(read).error());
    if (cut) break;
    text.remove_prefix(length + 1);
  }
  log.truncated = !reading.ended;
  return log;
}

Result<RunLog> read_run_log(const std::string& path) {
  TRY(const std::string text, read_text_file(path));
  auto log = parse_run_log(text);
  if (!log) return fail_within(path, std::move(log).error());
  return log;
}

}  // namespace saccade::bench
