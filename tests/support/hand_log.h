// Hand-made run logs for tests: one call a request, instants in milliseconds.
#pragma once

#include <string>
#include <vector>

#include "bench/log/run_log.h"

namespace saccade::bench {

struct HandEvent {
  double ms = 0;
  EventKinds kinds = 0;
  std::int32_t tokens = kUnknownTokens;
  std::size_t text = 0;
};

struct HandRequest {
  double scheduled_ms = 0;
  double start_ms = 0;  // admitted at the same instant unless admitted_ms says otherwise
  double admitted_ms = -1;
  double end_ms = 0;
  std::vector<HandEvent> events = {};
  std::int32_t status = 200;
  TransportFailure failure = TransportFailure::kNone;
  bool streamed = true;
  bool warmup = false;
  std::int32_t prompt_tokens = kUnknownTokens;
  std::int32_t completion_tokens = kUnknownTokens;
  std::int32_t retokenized = kUnknownTokens;
  std::int32_t max_tokens = kUnknownTokens;
  std::int32_t text_tokens = kUnknownTokens;
  std::string answer = {};
  std::string error = {};
  std::vector<StageTime> stages = {};
};

// One prompt a request.
inline RunLog hand_log(const std::vector<HandRequest>& requests, RunHeader header = {}) {
  const auto nanos = [](double ms) { return static_cast<Nanos>(ms * 1e6 + (ms < 0 ? -0.5 : 0.5)); };
  std::vector<PromptRecord> prompts(requests.size());
  Recorder recorder(0);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const HandRequest& hand = requests[i];
    prompts[i].text_tokens = hand.text_tokens;
    RequestRecord r;
    r.index = static_cast<std::uint32_t>(i);
    r.prompt = r.index;
    r.scheduled = nanos(hand.scheduled_ms);
    r.start = nanos(hand.start_ms);
    r.admitted = hand.admitted_ms < 0 ? r.start : nanos(hand.admitted_ms);
    r.connected = r.sent = r.headers = r.start;
    r.end = nanos(hand.end_ms);
    r.status = hand.status;
    r.failure = hand.failure;
    r.streamed = hand.streamed;
    r.warmup = hand.warmup;
    r.prompt_tokens = hand.prompt_tokens;
    r.completion_tokens = hand.completion_tokens;
    r.retokenized_tokens = hand.retokenized;
    r.max_tokens = hand.max_tokens;
    r.answer = recorder.keep(hand.answer);
    r.error = recorder.keep(hand.error);
    recorder.keep_stages(r, hand.stages);
    for (const HandEvent& event : hand.events)
      recorder.event(r.index, nanos(event.ms), 100, event.tokens, event.kinds, event.text);
    recorder.finish(r);
  }
  std::vector<Recorder> recorders;
  recorders.push_back(std::move(recorder));
  RunLog log = merge(std::move(header), std::move(prompts), std::move(recorders));
  log.stop_reason = "complete";
  return log;
}

}  // namespace saccade::bench
