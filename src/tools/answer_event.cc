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

bool AnswerEvents::add_but_space(AnswerEvent::Kind kind, std::string_view text,
                                 std::string& space) {
  const std::size_t last = text.find_last_not_of(" \n\r\t");
  if (last == std::string_view::npos) {
    space += text;
    return false;
  }
  add(kind, -1, space);
  add(kind, -1, text.substr(0, last + 1));
  space = text.substr(last + 1);
  return true;
}

}  // namespace saccade::tools
