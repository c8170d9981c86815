// Generated text to what a chat answer says: thoughts, content, calls of tools.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tools/answer_event.h"
#include "tools/formats.h"
#include "tools/reasoning_parser.h"
#include "tools/tool_call_parser.h"

namespace saccade::tools {

// How one answer is read. Formats live as long as the program.
struct ParserForm {
  const ToolCallFormat* calls = nullptr;       // null: calls are not looked for
  const ReasoningFormat* reasoning = nullptr;  // null: thoughts are content
  bool in_reasoning = false;                   // the prompt opened them
  std::shared_ptr<const json::array> tools;    // as the request gave them
  CallLimits limits;
};

// One answer, one thread.
class AnswerParser {
 public:
  explicit AnswerParser(const ParserForm& form);

  void feed(std::string_view text, AnswerEvents& events);
  void finish(AnswerEvents& events);  // once
  int calls() const { return calls_ ? calls_->calls() : 0; }

 private:
  void put(std::string_view text, AnswerEvents& events);

  std::optional<ReasoningParser> reasoning_;
  std::optional<ToolCallParser> calls_;
};

}  // namespace saccade::tools
