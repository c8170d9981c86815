// One request in flight: takes the response's bytes, logs its events, and ends as a RequestRecord.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/load/stream_event.h"
#include "bench/log/run_log.h"
#include "net/client/http_client.h"
#include "net/sse.h"

namespace saccade::bench {

// What becomes of a response depends on these.
struct FlightLimits {
  std::size_t max_response_bytes = 256u << 20;
  bool keep_answers = false;
  bool keep_first_event = false;
};

// One thread. reset(), then the callbacks of one response in their order.
class Flight {
 public:
  void reset(const RequestRecord& record, const FlightLimits& limits);

  void on_headers(const net::ClientResponse& so_far);
  // false: the response has broken its limits or is not what was asked for, and is given up.
  bool on_body(std::string_view bytes, Nanos at, Recorder& recorder);
  // The record is then complete and in the log.
  void on_done(const net::ClientResponse& response, bool run_stopped, Recorder& recorder);

  RequestRecord& record() { return record_; }
  const std::string& answer() const { return answer_; }
  Nanos first_output() const { return first_output_; }  // SteadyClock; 0: none came
  std::uint64_t output_events() const { return output_events_; }

 private:
  enum class Body { kEvents, kWhole };

  bool take_event(std::string_view data, Nanos at, Recorder& recorder);
  std::int32_t tokens_of(const StreamEvent& event);
  void take_whole(Nanos at, Recorder& recorder);
  void give_up(TransportFailure failure, std::string why);
  void keep_texts(Recorder& recorder);

  RequestRecord record_;
  FlightLimits limits_;
  Body body_ = Body::kWhole;
  net::SseScanner scanner_;
  std::size_t comments_ = 0;
  std::string whole_;  // a body that is not an event stream
  bool gave_up_ = false;
  std::string error_;

  Nanos first_output_ = 0;
  std::uint64_t output_events_ = 0;
  std::int32_t counted_tokens_ = 0;  // usage.completion_tokens so far
  bool counts_continuously_ = false;
  std::string answer_;
  std::string reasoning_;
  std::string first_event_;
  std::vector<StageTime> stages_;
};

}  // namespace saccade::bench
