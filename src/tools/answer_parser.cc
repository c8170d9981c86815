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

void ParsedAnswer::add(const AnswerEvents& events) {
  for (const AnswerEvent& event : events.list()) {
    switch (event.kind) {
      case AnswerEvent::Kind::kContent:
        content += event.text;
        break;
      case AnswerEvent::Kind::kReasoning:
        reasoning += event.text;
        break;
      case AnswerEvent::Kind::kCallBegin:
        calls.push_back({event.text, ""});
        break;
      case AnswerEvent::Kind::kArguments:
        calls.back().arguments += event.text;
        break;
      case AnswerEvent::Kind::kCallEnd:
        break;
    }
  }
}

ParsedAnswer parse_answer(const ParserForm& form, std::string_view text) {
  AnswerParser parser(form);
  AnswerEvents events;
  parser.feed(text, events);
  parser.finish(events);
  ParsedAnswer answer;
  answer.add(events);
  return answer;
}

}  // namespace saccade::tools
