// Sends prepared requests when they are due, and logs what comes back, event by event.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/load/arrivals.h"
#include "bench/load/request_body.h"
#include "bench/log/run_log.h"
#include "net/client/http_client.h"

namespace saccade::bench {

// A request whose body is encoded: nothing is left to do but to send it.
struct LoadRequest {
  BodyPieces body;
  std::uint32_t prompt = 0;  // index of its PromptRecord
  std::int32_t max_tokens = kUnknownTokens;
  std::int32_t conversation = -1;
  std::int32_t turn = 0;
  bool warmup = false;
  StringPairs headers;  // besides LoadSettings::headers
};

// The next turn of a conversation whose turn has ended.
struct FollowUp {
  LoadRequest request;
  Nanos delay = 0;  // think time after the end of the turn before
};

struct LoadSettings {
  net::Url url;  // of the endpoint
  StringPairs headers;
  bool streamed = true;
  int threads = 1;
  std::int64_t max_concurrency = 0;  // 0: no cap. A closed loop needs one.
  Nanos duration = 0;                // no request begins later than this; 0: no limit
  Nanos drain_limit = 60 * kSecond;  // then, how long running answers may take to end
  Nanos request_timeout = 6 * 3600 * kSecond;
  std::size_t max_response_bytes = 256u << 20;  // of one response
  bool keep_answers = false;                    // texts, in the log
  bool keep_first_event = false;                // its data, in the log
  net::HttpClientSettings client;
  // Called on a client thread when a request with a conversation has ended well; from several
  // threads at once when there are several.
  std::function<std::optional<FollowUp>(const RequestRecord&, const std::string& answer)> follow_up;

  std::vector<std::string> problems() const;  // all of them
};

// What a run looks like while it goes on.
struct LoadProgress {
  Nanos elapsed = 0;
  std::uint64_t planned = 0;  // requests known so far
  std::uint64_t due = 0;      // by now, had there been no cap
  std::uint64_t started = 0;
  std::uint64_t ended = 0;  // failed ones included
  std::uint64_t failed = 0;
  std::uint64_t output_events = 0;
  std::uint64_t output_tokens = 0;  // as usage said, of ended requests; 0 when it does not
  Nanos ttft_p50 = 0;               // from the start; within 6 %
  Nanos ttft_p99 = 0;
  bool draining = false;

  std::uint64_t in_flight() const { return started - ended; }
};

// How a run is watched and stopped from outside.
struct LoadControl {
  std::atomic<bool> stop{false};  // set by a signal handler: ends the run, keeping what is there
  std::function<void(const LoadProgress&)> on_progress;  // on the caller's thread
  Nanos progress_period = 200 * kMillisecond;
};

// requests[i] is due at arrivals.due[i]. `header` is completed with what the run itself knows
// (origin, arrivals, cap). Fails only when the run cannot begin; whatever happens later is in the
// log, with stop_reason "complete", "duration" or "interrupted".
Result<RunLog> run_load(const LoadSettings& settings, const ArrivalPlan& arrivals,
                        const std::vector<LoadRequest>& requests, std::vector<PromptRecord> prompts,
                        RunHeader header, LoadControl& control);

}  // namespace saccade::bench
