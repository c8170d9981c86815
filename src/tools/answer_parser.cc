#include "tools/answer_parser.h"

namespace saccade::tools {

AnswerParser::AnswerParser(const ParserForm& form) {
  if (form.reasoning != nullptr) reasoning_.emplace(*form.reasoning, form.in_reasoning);
  if (form.calls != nullptr) calls_.emplace(*form.calls, form.tools, form.limits);
}

void AnswerParser::feed(std::string_view text, AnswerEvents& events) {
  if (reasoning_) {
    put(reasoning_->feed(text, events), events);
  } else {
    put(text, events);
  }
}

void AnswerParser::finish(AnswerEvents& events) {
  if (reasoning_) put(reasoning_->finish(events), events);
  if (calls_) calls_->finish(events);
}

void AnswerParser::put(std::string_view text, AnswerEvents& events) {
  if (calls_) {
    calls_->feed(text, events);
  } else {
    events.add(AnswerEvent::Kind::kContent, -1, text);
  }
}

}  // namespace saccade::tools
