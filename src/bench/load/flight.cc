// From bytes to events to a record.
#include "bench/load/flight.h"

#include <fmt/format.h>

#include <algorithm>

namespace saccade::bench {
namespace {

constexpr std::size_t kErrorBodyBytes = 64u << 10;  // kept of an error page
constexpr std::size_t kShownBytes = 200;

TransportFailure failure_of(net::ClientFailure failure) {
  switch (failure) {
    case net::ClientFailure::kNone:
      return TransportFailure::kNone;
    case net::ClientFailure::kConnect:
      return TransportFailure::kConnect;
    case net::ClientFailure::kTls:
      return TransportFailure::kTls;
    case net::ClientFailure::kTimeout:
      return TransportFailure::kTimeout;
    case net::ClientFailure::kProtocol:
      return TransportFailure::kMalformed;
    case net::ClientFailure::kTruncated:
      return TransportFailure::kReset;
    case net::ClientFailure::kTooLarge:
      return TransportFailure::kTooLarge;
    case net::ClientFailure::kCancelled:
      return TransportFailure::kCancelled;
  }
  return TransportFailure::kReset;
}

// The beginning of a text, on one line.
std::string shown(std::string_view text) {
  std::string line(text.substr(0, kShownBytes));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return line;
}

}  // namespace

void Flight::reset(const RequestRecord& record, const FlightLimits& limits) {
  record_ = record;
  limits_ = limits;
  body_ = Body::kWhole;
  scanner_ = net::SseScanner(limits.max_response_bytes);
  comments_ = 0;
  whole_.clear();
  gave_up_ = false;
  error_.clear();
  first_output_ = 0;
  output_events_ = 0;
  counted_tokens_ = 0;
  counts_continuously_ = false;
  answer_.clear();
  reasoning_.clear();
  first_event_.clear();
  stages_.clear();
}

void Flight::on_headers(const net::ClientResponse& so_far) {
  const bool is_stream = so_far.header("content-type").starts_with("text/event-stream");
  body_ = so_far.status == 200 && is_stream ? Body::kEvents : Body::kWhole;
}

bool Flight::on_body(std::string_view bytes, Nanos at, Recorder& recorder) {
  record_.response_bytes += bytes.size();
  if (record_.response_bytes > limits_.max_response_bytes) {
    give_up(TransportFailure::kTooLarge,
            fmt::format("the response is over the limit of {} bytes", limits_.max_response_bytes));
    return false;
  }
  if (body_ == Body::kWhole) {
    whole_ += bytes;
    return true;
  }
  const bool fits =
      scanner_.feed(bytes, [&](std::string_view data) { take_event(data, at, recorder); });
  if (!fits) give_up(TransportFailure::kTooLarge, "an event is over the limit");
  for (; comments_ < scanner_.comments(); ++comments_) {
    recorder.event(record_.index, at, 0, kUnknownTokens, kCommentEvent);
  }
  return !gave_up_;
}

bool Flight::take_event(std::string_view data, Nanos at, Recorder& recorder) {
  if (gave_up_) return false;
  std::optional<StreamEvent> event = read_stream_event(data);
  if (!event) {
    give_up(TransportFailure::kMalformed, "not a JSON object: " + shown(data));
    return false;
  }
  const std::int32_t tokens = tokens_of(*event);
  const std::size_t text_before = answer_.size() + reasoning_.size();
  if (limits_.keep_answers || record_.conversation >= 0) event->content.append_to(answer_);
  if (limits_.keep_answers) event->reasoning.append_to(reasoning_);
  recorder.event(record_.index, at, data.size(), tokens, event->kinds,
                 answer_.size() + reasoning_.size() - text_before);
  if ((event->kinds & kOutputEvent) != 0 || tokens > 0) {
    ++output_events_;
    if (first_output_ == 0) {
      first_output_ = at;
      if (limits_.keep_first_event) first_event_ = data;
    }
  }
  if (event->finish_reason != FinishReason::kNone) record_.finish_reason = event->finish_reason;
  if ((event->kinds & kUsageEvent) != 0) {
    record_.prompt_tokens = event->usage.prompt;
    record_.completion_tokens = event->usage.completion;
    record_.cached_tokens = event->usage.cached;
    record_.image_tokens = event->usage.image;
    record_.reasoning_tokens = event->usage.reasoning;
  }
  if ((event->kinds & kErrorEvent) != 0) event->error.append_to(error_);
  if (!event->stages.empty()) stages_ = std::move(event->stages);
  return true;
}

// Usage in the events says how many tokens each brought only when it comes with all of them: with
// the first output already. At the end alone it is a total.
std::int32_t Flight::tokens_of(const StreamEvent& event) {
  const bool counted = (event.kinds & kUsageEvent) != 0 && event.usage.completion >= 0;
  if (counted && first_output_ == 0 && (event.kinds & kChoicesEvent) != 0) {
    counts_continuously_ = true;
  }
  if (counted && counts_continuously_) {
    const std::int32_t growth = std::max(event.usage.completion - counted_tokens_, 0);
    counted_tokens_ = std::max(counted_tokens_, event.usage.completion);
    return growth;
  }
  return event.token_ids > 0 ? event.token_ids : kUnknownTokens;
}

void Flight::give_up(TransportFailure failure, std::string why) {
  if (gave_up_) return;
  gave_up_ = true;
  record_.failure = failure;
  error_ = std::move(why);
}

void Flight::on_done(const net::ClientResponse& response, bool run_stopped, Recorder& recorder) {
  record_.start = recorder.since_origin(response.times.start);
  record_.connected = recorder.since_origin(response.times.connected);
  record_.sent = recorder.since_origin(response.times.sent);
  record_.headers = recorder.since_origin(response.times.headers);
  record_.end = recorder.since_origin(response.times.end);
  record_.reused_connection = response.times.reused_connection;
  record_.status = response.status;
  if (!gave_up_ && response.failure != net::ClientFailure::kNone) {
    give_up(failure_of(response.failure), response.error);
    if (run_stopped && response.failure == net::ClientFailure::kCancelled) {
      record_.failure = TransportFailure::kUnfinished;
      error_ = "the run ended first";
    }
  }
  if (body_ == Body::kEvents) {
    record_.streamed = true;
    if (!gave_up_) {
      scanner_.finish(
          [&](std::string_view data) { take_event(data, response.times.end, recorder); });
    }
  } else if (response.status != 0) {
    take_whole(response.times.end, recorder);
  }
  keep_texts(recorder);
  recorder.finish(record_);
}

// A body in one piece: the answer to a request that was not streamed, or an error page.
void Flight::take_whole(Nanos at, Recorder& recorder) {
  if (record_.status >= 200 && record_.status < 300) {
    record_.streamed = false;
    if (!gave_up_) take_event(whole_, at, recorder);
    return;
  }
  if (!error_.empty()) return;
  whole_.resize(std::min(whole_.size(), kErrorBodyBytes));
  const std::optional<StreamEvent> event = read_stream_event(whole_);
  if (event) event->error.append_to(error_);
  if (error_.empty()) error_ = fmt::format("HTTP {}: {}", record_.status, shown(whole_));
}

void Flight::keep_texts(Recorder& recorder) {
  if (limits_.keep_answers && !answer_.empty()) record_.answer = recorder.keep(answer_);
  if (limits_.keep_answers && !reasoning_.empty()) record_.reasoning = recorder.keep(reasoning_);
  if (!first_event_.empty()) record_.first_event = recorder.keep(first_event_);
  if (!error_.empty()) record_.error = recorder.keep(error_);
  if (!stages_.empty()) recorder.keep_stages(record_, std::move(stages_));
}

}  // namespace saccade::bench
