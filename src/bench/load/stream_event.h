// What one server-sent event of an OpenAI-compatible server says, without a JSON tree: a scanner
// that knows where to look, and asks a full parser when the text surprises it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/log/run_log.h"

namespace saccade::bench {

struct UsageCounts {
  std::int32_t prompt = kUnknownTokens;
  std::int32_t completion = kUnknownTokens;
  std::int32_t cached = kUnknownTokens;
  std::int32_t image = kUnknownTokens;
  std::int32_t reasoning = kUnknownTokens;

  bool operator==(const UsageCounts&) const = default;
};

// A text of the event: a slice of its data with the escapes left in, or, from the parser, decoded.
struct EventText {
  std::string_view escaped;
  std::string decoded;
  bool empty() const { return escaped.empty() && decoded.empty(); }
  void append_to(std::string& out) const;
};

// With several choices, texts and finish reason are those of the first that has one.
struct StreamEvent {
  EventKinds kinds = 0;
  FinishReason finish_reason = FinishReason::kNone;
  UsageCounts usage;
  std::int32_t token_ids = 0;  // how many, over all choices
  EventText content;           // delta.content, or text
  EventText reasoning;
  EventText error;                // its message
  std::vector<StageTime> stages;  // numbers of `metrics`: per-request times, when the server tells
};

// `data`: the payload of one event, or the body of an answer that is not streamed. Null: not JSON,
// or JSON that is no answer at all (an array, a number).
std::optional<StreamEvent> read_stream_event(std::string_view data);

// Appends the text of a JSON string's inside.
void append_unescaped(std::string& out, std::string_view escaped);

// The two halves of read_stream_event(), apart for tests. The scanner answers kUnsure when it would
// have to guess; what it does answer is what the parser answers.
enum class ScanOutcome { kRead, kUnsure };
ScanOutcome scan_stream_event(std::string_view data, StreamEvent& event);
std::optional<StreamEvent> parse_stream_event(std::string_view data);

}  // namespace saccade::bench
