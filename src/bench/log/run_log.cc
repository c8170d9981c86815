#include "bench/log/run_log.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace saccade::bench {

TextSpan Recorder::keep(std::string_view text) {
  const std::size_t size =
      std::min<std::size_t>(text.size(), std::numeric_limits<std::uint32_t>::max());
  const TextSpan span{text_.size(), static_cast<std::uint32_t>(size)};
  text_.append(text.substr(0, size));
  return span;
}

void Recorder::keep_stages(RequestRecord& record, std::vector<StageTime> stages) {
  record.first_stage = stages_.size();
  record.num_stages = static_cast<std::uint32_t>(stages.size());
  std::move(stages.begin(), stages.end(), std::back_inserter(stages_));
}

std::optional<double> stage_at(const RunLog& log, const RequestRecord& record,
                               std::string_view name) {
  for (const StageTime& stage : log.stages_of(record)) {
    std::string_view said = stage.name;
    if (said.ends_with("_time")) said.remove_suffix(5);
    if (said == name) return stage.seconds;
  }
  return std::nullopt;
}

RunLog merge(RunHeader header, std::vector<PromptRecord> prompts, std::vector<Recorder> recorders) {
  RunLog log;
  log.header = std::move(header);
  log.prompts = std::move(prompts);

  std::vector<LoggedEvent> events;
  for (Recorder& worker : recorders) {
    for (RequestRecord record : worker.requests_) {
      for (TextSpan* span : {&record.answer, &record.reasoning, &record.error, &record.first_event})
        span->begin += log.text.size();
      record.first_stage += log.stages.size();
      CHECK(record.prompt < log.prompts.size(), "request {} asks prompt {} of {}", record.index,
            record.prompt, log.prompts.size());
      log.requests.push_back(record);
    }
    log.text += worker.text_;
    std::move(worker.stages_.begin(), worker.stages_.end(), std::back_inserter(log.stages));
    events.insert(events.end(), worker.events_.begin(), worker.events_.end());
    worker = Recorder(0);
  }

  const auto by_index = [](const RequestRecord& a, const RequestRecord& b) {
    return a.index < b.index;
  };
  std::stable_sort(log.requests.begin(), log.requests.end(), by_index);
  const auto same_index = [](const RequestRecord& a, const RequestRecord& b) {
    return a.index == b.index;
  };
  const auto twice = std::adjacent_find(log.requests.begin(), log.requests.end(), same_index);
  CHECK(twice == log.requests.end(), "request {} was finished twice", twice->index);

  std::stable_sort(events.begin(), events.end(), [](const LoggedEvent& a, const LoggedEvent& b) {
    return std::tie(a.request, a.at) < std::tie(b.request, b.at);
  });
  log.events.reserve(events.size());
  log.event_begin.reserve(log.requests.size() + 1);
  auto next = events.begin();
  for (const RequestRecord& record : log.requests) {
    log.event_begin.push_back(log.events.size());
    while (next != events.end() && next->request < record.index) ++next;  // never finished
    for (; next != events.end() && next->request == record.index; ++next)
      log.events.push_back(*next);
  }
  log.event_begin.push_back(log.events.size());
  return log;
}

ErrorClass error_class(const RequestRecord& record, std::span<const LoggedEvent> events) {
  EventKinds seen = 0;
  // Tokens without text (special ones alone, say) are an answer too: usage counts them, or a chunk
  // came for each that is neither the role's nor the end's.
  bool generated = record.completion_tokens > 0;
  for (const LoggedEvent& event : events) {
    seen |= event.kinds;
    const bool bare_chunk =
        (event.kinds & (kChoicesEvent | kRoleEvent | kFinishEvent)) == kChoicesEvent;
    generated = generated || is_output(event) || bare_chunk;
  }
  switch (record.failure) {
    case TransportFailure::kNone:
      break;
    case TransportFailure::kConnect:
      return ErrorClass::kConnect;
    case TransportFailure::kTls:
      return ErrorClass::kTls;
    case TransportFailure::kTimeout:
      return ErrorClass::kTimeout;
    case TransportFailure::kReset:
      return events.empty() ? ErrorClass::kReset : ErrorClass::kTruncated;
    case TransportFailure::kMalformed:
      return ErrorClass::kMalformed;
    case TransportFailure::kTooLarge:
      return ErrorClass::kTooLarge;
    case TransportFailure::kCancelled:
      return ErrorClass::kCancelled;
    case TransportFailure::kUnfinished:
      return ErrorClass::kUnfinished;
  }
  if (record.status < 200 || record.status > 299) return ErrorClass::kHttp;
  if ((seen & kErrorEvent) != 0) return ErrorClass::kSseError;
  if ((seen & (kFinishEvent | kDoneEvent)) == 0) return ErrorClass::kTruncated;
  if (!generated) return ErrorClass::kEmpty;
  return ErrorClass::kNone;
}

std::string_view name_of(ErrorClass error) {
  constexpr std::array<std::string_view, 13> kNames = {
      "none",      "connect", "tls",       "timeout",   "http",      "sse-error", "reset",
      "truncated", "empty",   "malformed", "too-large", "cancelled", "unfinished"};
  return kNames.at(static_cast<std::size_t>(error));
}

std::string_view name_of(TransportFailure failure) {
  constexpr std::array<std::string_view, 9> kNames = {"none",      "connect",   "tls",
                                                      "timeout",   "reset",     "malformed",
                                                      "too-large", "cancelled", "unfinished"};
  return kNames.at(static_cast<std::size_t>(failure));
}

std::string_view name_of(FinishReason reason) {
  constexpr std::array<std::string_view, 6> kNames = {"",           "stop",           "length",
                                                      "tool_calls", "content_filter", "other"};
  return kNames.at(static_cast<std::size_t>(reason));
}

FinishReason finish_reason_from(std::string_view api_name) {
  for (const FinishReason reason : {FinishReason::kNone, FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kToolCalls, FinishReason::kContentFilter}) {
    if (api_name == name_of(reason)) return reason;
  }
  return FinishReason::kOther;
}

}  // namespace saccade::bench
