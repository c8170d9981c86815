// The log of one benchmark run: every event in nanoseconds, the only truth. All metrics are pure
// functions of it (metrics.h). The file form is docs/run-format.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::bench {

constexpr int kRunFormatVersion = 1;

// Instants in the log are nanoseconds since the run's origin (RunHeader::origin_wall_ns on the wall
// clock, an instant of the monotonic clock otherwise). kNever: it did not happen.
constexpr Nanos kNever = std::numeric_limits<Nanos>::min();

// What one server-sent event carried; an event may carry several. A response that is not streamed
// is one event at the instant its body was complete.
using EventKinds = std::uint16_t;
enum EventKind : EventKinds {
  kRoleEvent = 1 << 0,       // delta.role
  kContentEvent = 1 << 1,    // non-empty delta.content, text
  kReasoningEvent = 1 << 2,  // non-empty delta.reasoning_content or delta.reasoning
  kToolEvent = 1 << 3,       // delta.tool_calls
  kTokenIdsEvent = 1 << 4,   // non-empty token ids
  kUsageEvent = 1 << 5,      // usage is an object
  kFinishEvent = 1 << 6,     // finish_reason is not null
  kDoneEvent = 1 << 7,       // [DONE]
  kErrorEvent = 1 << 8,      // an `error` object instead of an answer
  kCommentEvent = 1 << 9,    // a comment line (keep-alive ping)
  kChoicesEvent = 1 << 10,   // `choices` is not empty (the event may still carry no output)
};
constexpr EventKinds kAllEventKinds = (1 << 11) - 1;
// Carries generated output.
constexpr EventKinds kOutputEvent = kContentEvent | kReasoningEvent | kToolEvent | kTokenIdsEvent;

constexpr std::int32_t kUnknownTokens = -1;

struct LoggedEvent {
  Nanos at = 0;               // of the read that completed the event
  std::uint32_t request = 0;  // RequestRecord::index
  std::uint32_t bytes = 0;    // of the event's data payload
  // Tokens that this event brought: growth of usage.completion_tokens, or the number of token ids,
  // or where an answer's tokens are not one an event those of its text by the client's tokenizer;
  // kUnknownTokens when nobody says.
  std::int32_t tokens = kUnknownTokens;
  EventKinds kinds = 0;
  // Bytes of answer or reasoning that it brought, while texts are kept; kLongText: so many or more.
  std::uint16_t text = 0;
};
constexpr std::uint16_t kLongText = 0xffff;

// Whether the event brought generated tokens: as text, tool calls or ids, or by growth of usage.
inline bool is_output(const LoggedEvent& event) {
  return (event.kinds & kOutputEvent) != 0 || event.tokens > 0;
}

// What ended a request below the level of the API. HTTP status, error events, cut and empty streams
// are seen in the record and its events: error_class().
enum class TransportFailure : std::uint8_t {
  kNone,
  kConnect,     // no connection: name, refused, unreachable
  kTls,         // handshake or certificate
  kTimeout,     // the request's own time limit
  kReset,       // the connection broke before the body ended
  kMalformed,   // an answer that is not HTTP, or not JSON where JSON is due
  kTooLarge,    // an event or a body over the client's limit
  kCancelled,   // cancelled by plan (cancellation rate)
  kUnfinished,  // still running when the run was stopped (duration, Ctrl-C)
};

enum class FinishReason : std::uint8_t {
  kNone,
  kStop,
  kLength,
  kToolCalls,
  kContentFilter,
  kOther
};

// A string kept in RunLog::text.
struct TextSpan {
  std::uint64_t begin = 0;
  std::uint32_t size = 0;
};

// Trivially copyable: a worker appends it when the request has ended.
struct RequestRecord {
  std::uint32_t index = 0;         // in order of the arrival sequence
  std::uint32_t prompt = 0;        // RunLog::prompts
  std::int32_t conversation = -1;  // multi-turn; -1: none
  std::int32_t turn = 0;

  Nanos scheduled = kNever;  // when the arrival process says; closed loop: when the slot came free
  Nanos admitted = kNever;   // when the concurrency cap let it go (= scheduled without a cap)
  Nanos start = kNever;      // the client really began; start - admitted is the client's lateness
  Nanos connected = kNever;  // = start on a pooled connection
  Nanos sent = kNever;       // last body byte handed to the kernel
  Nanos headers = kNever;    // status line and headers seen
  Nanos end = kNever;        // body ended, or the failure

  std::int32_t status = 0;  // HTTP; 0: none
  TransportFailure failure = TransportFailure::kNone;
  FinishReason finish_reason = FinishReason::kNone;
  bool streamed = true;
  bool reused_connection = false;
  bool warmup = false;  // left out of every metric

  // As the server's usage says; kUnknownTokens when it does not.
  std::int32_t prompt_tokens = kUnknownTokens;
  std::int32_t completion_tokens = kUnknownTokens;
  std::int32_t cached_tokens = kUnknownTokens;
  std::int32_t image_tokens = kUnknownTokens;
  std::int32_t reasoning_tokens = kUnknownTokens;
  std::int32_t retokenized_tokens = kUnknownTokens;  // own tokenizer over the answer's text
  std::int32_t max_tokens = kUnknownTokens;          // asked for

  std::uint64_t body_bytes = 0;      // sent
  std::uint64_t response_bytes = 0;  // received
  TextSpan answer;                   // when kept
  TextSpan reasoning;                // when kept
  TextSpan error;                    // for a person
  TextSpan first_event;              // data of the first event with output, when kept
  // Server-side stage times of this request, when the server gives them: RunLog::stages.
  std::uint64_t first_stage = 0;
  std::uint32_t num_stages = 0;
};

// `name` as the server calls it (arrival_time, first_scheduled_time, ...); seconds on the server's
// own axis, or a duration in seconds.
struct StageTime {
  std::string name;
  double seconds = 0;
};

struct PromptImage {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::uint64_t bytes = 0;  // encoded, before base64
  std::string sha256;       // hex of the encoded bytes
};

// What was asked: known before the run, shared by every request that asks it again.
struct PromptRecord {
  std::string row_id;        // the dataset's name for it: "MMMU_Pro:test_Art_12", "line 7"
  std::string content_hash;  // hex SHA-256 of the parts as sent, text and images
  std::string label;         // class in a mixed run: "text", "image"
  std::int32_t text_tokens = kUnknownTokens;             // own tokenizer, text alone
  std::int32_t predicted_image_tokens = kUnknownTokens;  // by the model's rule
  std::vector<PromptImage> images;
  std::string text;       // when kept
  std::string reference;  // reference answer, when the dataset has one
};

// A reading at an instant: a scrape of /metrics, process or GPU memory, the client's own load.
struct Sample {
  Nanos at = 0;
  std::string source;  // "metrics", "memory", "gpu", "client"
  std::vector<std::pair<std::string, double>> values;
};

struct HostFacts {
  std::string name;
  std::string cpu;
  std::int32_t cores = 0;
  std::int64_t memory_bytes = 0;
  std::string kernel;
};

using StringPairs = std::vector<std::pair<std::string, std::string>>;

struct RunHeader {
  std::vector<std::string> argv;
  std::uint64_t seed = 0;
  std::string tool_version;
  std::int64_t origin_wall_ns = 0;  // Unix time of the run's origin
  HostFacts host;

  std::string backend;   // "openai-chat", "vllm", ...
  std::string base_url;  // "http://127.0.0.1:8000"
  std::string endpoint;  // "/v1/chat/completions"
  std::string model;
  std::string tokenizer;
  std::string label;
  std::string server_version;
  StringPairs server_parameters;

  std::string dataset;  // name
  std::string dataset_path;
  std::string dataset_hash;  // over the prompts' content hashes, in order
  std::string arrival_hash;  // over the scheduled instants
  std::string arrivals;      // "poisson", "gamma", "constant", "trace", "closed-loop", ...
  double request_rate = std::numeric_limits<double>::infinity();  // per second
  double burstiness = 1.0;
  std::int64_t max_concurrency = 0;  // 0: no cap
  std::string ramp_up_strategy;      // "", "linear", "exponential"
  double ramp_up_start_rps = 0;
  double ramp_up_end_rps = 0;
  std::int64_t num_prompts = 0;  // asked for
  bool usage_requested = false;  // stream_options.include_usage
  bool cache_reset = false;      // the server's caches were emptied before the run
  StringPairs metadata;          // the user's own
};

// How the client itself did: is it what limited the run?
struct ClientLoad {
  std::int32_t threads = 0;
  double wall_seconds = 0;
  double cpu_seconds = 0;  // user + system, of the whole client
  std::uint64_t connects = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  // Lateness of the event loops' own timers.
  Nanos loop_lag_p50 = 0;
  Nanos loop_lag_p99 = 0;
  Nanos loop_lag_max = 0;
};

struct RunLog {
  RunHeader header;
  std::vector<PromptRecord> prompts;
  std::vector<RequestRecord> requests;     // sorted by index
  std::vector<LoggedEvent> events;         // grouped by request, in time order
  std::vector<std::uint64_t> event_begin;  // [requests + 1]: where each request's events start
  std::vector<StageTime> stages;
  std::vector<Sample> samples;
  ClientLoad client;
  std::string text;         // what the TextSpans point into
  std::string stop_reason;  // "complete", "duration", "interrupted", "aborted: ..."
  bool truncated = false;   // the file ended early: what is here is what it held

  std::span<const LoggedEvent> events_of(std::size_t request) const {
    return std::span(events).subspan(event_begin[request],
                                     event_begin[request + 1] - event_begin[request]);
  }
  std::string_view text_of(TextSpan span) const {
    return std::string_view(text).substr(span.begin, span.size);
  }
  std::span<const StageTime> stages_of(const RequestRecord& record) const {
    return std::span(stages).subspan(record.first_stage, record.num_stages);
  }
};

// One worker's share of the log while the run goes on. One thread. Appends only.
class Recorder {
 public:
  explicit Recorder(Nanos origin) : origin_(origin) {}

  // An instant of the SteadyClock as the log says it; 0 (never happened, see net::ClientTimes) is
  // kNever.
  Nanos since_origin(Nanos steady) const { return steady == 0 ? kNever : steady - origin_; }

  // `at` is on the SteadyClock.
  void event(std::uint32_t request, Nanos at, std::size_t bytes, std::int32_t tokens,
             EventKinds kinds, std::size_t text = 0) {
    events_.push_back({at - origin_, request, static_cast<std::uint32_t>(bytes), tokens, kinds,
                       static_cast<std::uint16_t>(std::min<std::size_t>(text, kLongText))});
  }

  // Texts and stages of a record are given to these first; their results go into the record.
  TextSpan keep(std::string_view text);
  void keep_stages(RequestRecord& record, std::vector<StageTime> stages);

  // The request has ended: once per request.
  void finish(const RequestRecord& record) { requests_.push_back(record); }

 private:
  friend RunLog merge(RunHeader, std::vector<PromptRecord>, std::vector<Recorder>);
  Nanos origin_;
  std::vector<RequestRecord> requests_;
  std::vector<LoggedEvent> events_;
  std::vector<StageTime> stages_;
  std::string text_;
};

// Seconds of the request's stage of this name, which is without the "_time" that some servers end
// theirs with.
std::optional<double> stage_at(const RunLog& log, const RequestRecord& record,
                               std::string_view name);

// The workers' shares as one log: requests by index, events by request and time. Events of requests
// that were never finished are dropped: finish every request, with kUnfinished if need be.
RunLog merge(RunHeader header, std::vector<PromptRecord> prompts, std::vector<Recorder> recorders);

// Why a request did not succeed, from all that the log says of it.
enum class ErrorClass : std::uint8_t {
  kNone,
  kConnect,
  kTls,
  kTimeout,
  kHttp,       // a status other than 2xx
  kSseError,   // an error event
  kReset,      // broke before any event came
  kTruncated,  // events came, but neither finish_reason nor [DONE]
  kEmpty,      // a well-formed answer without any output
  kMalformed,
  kTooLarge,
  kCancelled,
  kUnfinished,
};
ErrorClass error_class(const RequestRecord& record, std::span<const LoggedEvent> events);

std::string_view name_of(ErrorClass error);
std::string_view name_of(TransportFailure failure);
std::string_view name_of(FinishReason reason);
FinishReason finish_reason_from(std::string_view api_name);  // "" is kNone, unknown ones kOther

// The file form: one JSON object a line.
std::string to_text(const RunLog& log);
Result<void> write_run_log(const RunLog& log, const std::string& path);

// Every field is checked; an error names the line and the field. A file that ends in the middle of
// a line, or without its end line, gives the complete lines and sets `truncated`.
Result<RunLog> parse_run_log(std::string_view text);
Result<RunLog> read_run_log(const std::string& path);

}  // namespace saccade::bench
