#include "tools/answer_event.h"

namespace saccade::tools {

void AnswerEvents::add(AnswerEvent::Kind kind, int call, std::string_view text) {
  const bool joins = kind != AnswerEvent::Kind::kCallBegin && kind != AnswerEvent::Kind::kCallEnd;
  if (joins && text.empty()) return;
  if (joins && !list_.empty() && list_.back().kind == kind && list_.back().call == call) {
    list_.back().text += text;
    return;
  }
  list_.push_back({kind, call, std::string(text)});
}

}  // namespace saccade::tools
