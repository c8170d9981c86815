// An answer's text through its parsers, cut in every way.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "tools/answer_parser.h"

namespace saccade::tools {

inline ParserForm parser_form(std::string_view calls, std::string_view reasoning,
                              std::shared_ptr<const json::array> tools) {
  ParserForm form;
  if (!calls.empty()) form.calls = tool_call_format(calls).value();
  if (!reasoning.empty()) form.reasoning = reasoning_format(reasoning).value();
  form.tools = std::move(tools);
  return form;
}

// What the events of an answer come to.
struct ParsedCall {
  std::string name;
  std::string arguments;
  bool operator==(const ParsedCall&) const = default;
};
struct ParsedAnswer {
  std::string content;
  std::string reasoning;
  std::vector<ParsedCall> calls;

  void add(const AnswerEvents& events) {
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
  bool operator==(const ParsedAnswer&) const = default;
};

// The machine, fed once.
inline ParsedAnswer parse_answer(const ParserForm& form, std::string_view text) {
  AnswerParser parser(form);
  AnswerEvents events;
  parser.feed(text, events);
  parser.finish(events);
  ParsedAnswer answer;
  answer.add(events);
  return answer;
}

// content | reasoning | name(arguments) ...
inline std::string shown(const ParsedAnswer& answer) {
  std::string text = answer.content + "|" + answer.reasoning;
  for (const ParsedCall& call : answer.calls) text += "|" + call.name + "(" + call.arguments + ")";
  return text;
}

// The events in the order of the text, each with all that its neighbours of one kind say.
inline std::vector<AnswerEvent> joined(const std::vector<AnswerEvents>& steps) {
  AnswerEvents all;
  for (const AnswerEvents& step : steps) {
    for (const AnswerEvent& event : step.list()) all.add(event.kind, event.call, event.text);
  }
  return all.list();
}

inline std::vector<AnswerEvent> events_of(const ParserForm& form, std::string_view text,
                                          const std::vector<std::size_t>& pieces) {
  AnswerParser parser(form);
  std::vector<AnswerEvents> steps;
  for (const std::size_t size : pieces) {
    parser.feed(text.substr(0, size), steps.emplace_back());
    text.remove_prefix(size);
  }
  parser.feed(text, steps.emplace_back());
  parser.finish(steps.emplace_back());
  return joined(steps);
}

// Every cut in two, every byte alone, and twenty ways at random give the same events.
inline void expect_cuts_agree(const ParserForm& form, std::string_view text) {
  const auto whole = events_of(form, text, {});
  EXPECT_EQ(events_of(form, text, std::vector<std::size_t>(text.size(), 1)), whole) << text;
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    ASSERT_EQ(events_of(form, text, {cut}), whole) << text << " cut at " << cut;
  Rng rng(text.size());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> pieces;
    for (std::size_t left = text.size(); left > 0; left -= pieces.back())
      pieces.push_back(std::min<std::size_t>(left, rng.below(6)));
    ASSERT_EQ(events_of(form, text, pieces), whole) << text;
  }
}

struct Case {
  std::string_view format;
  std::string_view text;
  std::string_view expected;
};

inline void expect_read(const Case& one, std::shared_ptr<const json::array> tools) {
  const ParserForm form = parser_form(one.format, "", std::move(tools));
  EXPECT_EQ(shown(parse_answer(form, one.text)), one.expected) << one.format << ": " << one.text;
  expect_cuts_agree(form, one.text);
}

}  // namespace saccade::tools
