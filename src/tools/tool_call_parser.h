// Generated text to content and calls, as it comes. Any way of cutting the text gives the same.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tools/answer_event.h"
#include "tools/call_body.h"
#include "tools/call_writer.h"
#include "tools/formats.h"

namespace saccade::tools {

// What cannot be a call, or breaks off before its arguments began, is content, markers and all. A
// call that breaks in its arguments ends there, and what follows is content. White space around
// calls is nobody's, but two contents stay as far apart as one of them had it. One answer, one
// thread.
class ToolCallParser {
 public:
  // `tools`: as in the request; their names tell bare calls, their schemas strings from other
  // values.
  ToolCallParser(const ToolCallFormat& format, std::shared_ptr<const json::array> tools,
                 CallLimits limits = {});
  ToolCallParser(const ToolCallParser&) = delete;
  ToolCallParser& operator=(const ToolCallParser&) = delete;

  void feed(std::string_view text, AnswerEvents& events);
  // The text is over. Once.
  void finish(AnswerEvents& events);

  int calls() const { return writer_.calls(); }

 private:
  enum class At { kStart, kContent, kThoughts, kBody, kAfterBody };

  // False: more text is needed.
  bool advance(AnswerEvents& events);
  bool at_start();
  bool in_content(AnswerEvents& events);
  bool in_thoughts(AnswerEvents& events);
  bool in_body(AnswerEvents& events);
  bool after_body();
  void begin_body(BodyKind kind, bool bare, std::string_view end);
  void break_off(AnswerEvents& events);
  void put_content(std::string_view text, AnswerEvents& events);

  const ToolCallFormat& format_;
  std::shared_ptr<const json::array> tools_;
  CallWriter writer_;
  At at_;
  std::string input_;  // not yet decided
  std::string space_;  // white space that follows shown content
  bool shown_ = false;
  bool after_call_ = false;  // and nothing shown since
  std::string before_call_;  // white space between the content shown last and the call after it
  std::string behind_call_;  // white space behind it
  std::unique_ptr<CallBody> body_;
  std::string_view end_;  // the marker that may follow the body
  int calls_before_ = 0;  // the body
  // Of a body of lines that broke off: its next line may be a call. Null: there is none.
  const CallMarker* lines_ = nullptr;
};

}  // namespace saccade::tools
