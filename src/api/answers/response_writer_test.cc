// The events of /v1/responses: their order, their numbers, and that they come to the whole answer.
#include "api/answers/response_writer.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>
#include <vector>

namespace saccade::api {
namespace {

using Kind = SaidPart::Kind;

struct Streamed {
  std::vector<json::value> events;
  json::value whole;
  std::string kept;  // what `ended` was given
  std::string kept_items;
};

struct Said {
  Said(Kind kind, std::string text, int call = -1, std::string id = "")
      : part{kind, std::move(text), call, std::move(id)} {}
  SaidPart part;
};

AnswerPiece response_piece(const std::vector<Said>& said, std::string_view finish = "") {
  AnswerPiece made;
  for (const Said& one : said) made.said.push_back(one.part);
  made.tokens = 1;
  made.rest.finish_reason = finish;
  return made;
}

std::vector<json::value> parsed_stream(const std::string& text) {
  std::vector<json::value> events;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find("\n\n", at);
    const std::string event = text.substr(at, end - at);
    at = end + 2;
    const std::size_t data = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: ") && data != std::string::npos) << event;
    events.push_back(json::parse(event.substr(data + 7)).value());
    EXPECT_EQ(event.substr(7, data - 7), std::string(events.back().at("type").as_string()));
  }
  return events;
}

using Pieces = std::vector<std::pair<std::vector<Said>, std::string_view>>;

ResponseForm form(bool stream) {
  ResponseForm made;
  made.head = {"resp_1", 7, "m"};
  made.stream = stream;
  made.settings = response_settings({});
  return made;
}

Streamed run_response(const Pieces& pieces) {
  Streamed result;
  ResponseForm streamed = form(true);
  streamed.ended = [&](const std::string& response, std::string items) {
    result.kept = response;
    result.kept_items = std::move(items);
  };
  const auto stream = response_writer(std::move(streamed));
  const auto whole = response_writer(form(false));
  const Usage usage{10, 5, 4, 6, 0, 2};
  std::string text;
  for (const auto& [said, finish] : pieces) {
    text += stream->add(response_piece(said, finish), nullptr);
    EXPECT_EQ(whole->add(response_piece(said, finish), nullptr), "");
  }
  text += stream->finish(usage, nullptr);
  result.events = parsed_stream(text);
  result.whole = json::parse(whole->finish(usage, nullptr)).value();
  for (std::size_t i = 0; i < result.events.size(); ++i)
    EXPECT_EQ(result.events[i].at("sequence_number").as_int64(), static_cast<std::int64_t>(i));
  // The last event brings what a whole answer is, and what is kept.
  EXPECT_EQ(result.events.back().at("response"), result.whole);
  EXPECT_EQ(json::parse(result.kept).value(), result.whole);
  EXPECT_EQ(json::parse(result.kept_items).value(), result.whole.at("output"));
  return result;
}

std::vector<std::string> types(const Streamed& run) {
  std::vector<std::string> names;
  for (const json::value& event : run.events) {
    std::string name(event.at("type").as_string());
    names.push_back(name.substr(std::string_view("response.").size()));
  }
  return names;
}

TEST(ResponseWriter, TextComesInThisOrder) {
  const Streamed text =
      run_response({{{{Kind::kText, "He"}}, ""}, {{{Kind::kText, "llo"}}, ""}, {{}, "stop"}});
  EXPECT_EQ(types(text), (std::vector<std::string>{
                             "created", "in_progress", "output_item.added", "content_part.added",
                             "output_text.delta", "output_text.delta", "output_text.done",
                             "content_part.done", "output_item.done", "completed"}));
  EXPECT_EQ(text.events[0].at("response").at("status").as_string(), "in_progress");
  EXPECT_TRUE(text.events[0].at("response").at("usage").is_null());
  EXPECT_EQ(text.events[2].at("item").at("content").as_array().size(), 0u);
  EXPECT_EQ(text.events[6].at("text").as_string(), "Hello");
  EXPECT_EQ(text.whole.at("status").as_string(), "completed");
  EXPECT_EQ(text.whole.at("output").at(0).at("content").at(0).at("text").as_string(), "Hello");
  EXPECT_EQ(text.whole.at("usage").at("input_tokens").as_int64(), 10);
  EXPECT_EQ(text.whole.at("usage").at("total_tokens").as_int64(), 15);
  EXPECT_EQ(text.whole.at("usage").at("input_tokens_details").at("cached_tokens").as_int64(), 4);
}

TEST(ResponseWriter, ThoughtsTextAndCallsAreItems) {
  const Streamed all =
      run_response({{{{Kind::kReasoning, "Hm"}}, ""},
                    {{{Kind::kReasoning, "."}, {Kind::kText, "So"}}, ""},
                    {{{Kind::kText, ":"}, {Kind::kCallBegin, "f", 0, "call_a"}}, ""},
                    {{{Kind::kArguments, "{\"a\"", 0}}, ""},
                    {{{Kind::kArguments, ": 1}", 0},
                      {Kind::kCallEnd, "", 0},
                      {Kind::kCallBegin, "g", 1, "call_b"},
                      {Kind::kArguments, "{}", 1},
                      {Kind::kCallEnd, "", 1}},
                     ""},
                    {{}, "tool_calls"}});
  EXPECT_EQ(types(all), (std::vector<std::string>{"created",
                                                  "in_progress",
                                                  "output_item.added",
                                                  "content_part.added",
                                                  "reasoning_text.delta",
                                                  "reasoning_text.delta",
                                                  "reasoning_text.done",
                                                  "content_part.done",
                                                  "output_item.done",
                                                  "output_item.added",
                                                  "content_part.added",
                                                  "output_text.delta",
                                                  "output_text.delta",
                                                  "output_text.done",
                                                  "content_part.done",
                                                  "output_item.done",
                                                  "output_item.added",
                                                  "function_call_arguments.delta",
                                                  "function_call_arguments.delta",
                                                  "function_call_arguments.done",
                                                  "output_item.done",
                                                  "output_item.added",
                                                  "function_call_arguments.delta",
                                                  "function_call_arguments.done",
                                                  "output_item.done",
                                                  "completed"}));
  const auto& output = all.whole.at("output");
  ASSERT_EQ(output.as_array().size(), 4u);
  EXPECT_EQ(output.at(0).at("type").as_string(), "reasoning");
  EXPECT_EQ(output.at(0).at("content").at(0).at("text").as_string(), "Hm.");
  EXPECT_EQ(output.at(2).at("call_id").as_string(), "call_a");
  EXPECT_EQ(output.at(2).at("arguments").as_string(), "{\"a\": 1}");
  EXPECT_EQ(output.at(3).at("name").as_string(), "g");
  EXPECT_EQ(all.whole.at("usage").at("output_tokens_details").at("reasoning_tokens").as_int64(), 2);
  // Places and ids are the item's own.
  for (const json::value& event : all.events) {
    if (!event.as_object().contains("item_id")) continue;
    const auto index = static_cast<std::size_t>(event.at("output_index").as_int64());
    EXPECT_EQ(event.at("item_id"), output.at(index).at("id"));
  }
}

// Of tokens that are text alone, each in the event that brings its text. Behind a thought a token
// without text may be its end or the text's beginning: it is left out.
TEST(ResponseWriter, LogprobsAreTheTexts) {
  const auto stream = response_writer(form(true));
  std::string text;
  const auto add = [&](const std::vector<Said>& said, const std::string& token, double logprob,
                       std::string_view finish = "") {
    AnswerPiece one = response_piece(said, finish);
    one.rest.logprobs = std::vector<LogprobEntry>{{token, 1, logprob, {{"x", 2, -7}}}};
    text += stream->add(std::move(one), nullptr);
  };
  add({{Kind::kReasoning, "Hm"}}, "Hm", -1);
  add({}, "</think>", -1.5);
  add({}, "\xc3", -2);
  add({{Kind::kText, "\xc3\xbc"}}, "\xbc", -3);
  add({{Kind::kText, "b"}}, "b", -4);
  add({}, "<end>", -5, "stop");
  text += stream->finish({}, nullptr);
  std::vector<std::vector<double>> deltas;
  const auto numbers = [](const json::value& list) {
    std::vector<double> all;
    for (const auto& entry : list.as_array())
      all.push_back(entry.at("logprob").to_number<double>());
    return all;
  };
  std::vector<double> done;
  json::value part;
  for (const json::value& event : parsed_stream(text)) {
    const std::string_view type = event.at("type").as_string();
    if (type == "response.output_text.delta") deltas.push_back(numbers(event.at("logprobs")));
    if (type == "response.output_text.done") done = numbers(event.at("logprobs"));
    if (type == "response.content_part.done") part = event.at("part");
  }
  EXPECT_EQ(deltas, (std::vector<std::vector<double>>{{-3}, {-4}}));
  EXPECT_EQ(done, (std::vector<double>{-3, -4, -5}));
  EXPECT_EQ(numbers(part.at("logprobs")), done);
  EXPECT_EQ(part.at("logprobs").at(0).at("top_logprobs").at(0).at("logprob").to_number<double>(),
            -7);
}

// The log-probabilities of the text parts of what is said, by their tokens; `pieces`: the token of
// each, and what is said with it.
std::vector<std::vector<std::string>> text_tokens(
    const std::vector<std::pair<std::string, std::vector<Said>>>& pieces) {
  const auto writer = response_writer(form(false));
  for (const auto& [token, said] : pieces) {
    AnswerPiece one = response_piece(said, &said == &pieces.back().second ? "stop" : "");
    one.rest.logprobs = std::vector<LogprobEntry>{{token, 1, -1, {}}};
    writer->add(std::move(one), nullptr);
  }
  std::vector<std::vector<std::string>> all;
  const json::value whole = json::parse(writer->finish({}, nullptr)).value();
  for (const auto& item : whole.at("output").as_array()) {
    if (item.at("type").as_string() != "message") continue;
    auto& tokens = all.emplace_back();
    for (const auto& entry : item.at("content").at(0).at("logprobs").as_array())
      tokens.emplace_back(entry.at("token").as_string());
  }
  return all;
}

TEST(ResponseWriter, LogprobsOfATextHaveNoMarksTokens) {
  using Tokens = std::vector<std::vector<std::string>>;
  // A mark of several tokens: before thoughts, behind them, of no thoughts, of thoughts left out.
  EXPECT_EQ(text_tokens({{"<th", {}},
                         {"ink>", {}},
                         {"Hm", {{Kind::kReasoning, "Hm"}}},
                         {"</t", {}},
                         {"hink>\n", {}},
                         {"\nHe", {{Kind::kText, "He"}}},
                         {"llo", {{Kind::kText, "llo"}}},
                         {"<end>", {}}}),
            (Tokens{{"\nHe", "llo", "<end>"}}));
  EXPECT_EQ(text_tokens({{"<th", {}},
                         {"ink>", {}},
                         {"</t", {}},
                         {"hink>", {}},
                         {"t", {{Kind::kText, "t"}}},
                         {"<end>", {}}}),
            (Tokens{{"t", "<end>"}}));
  // What is held back as the beginning of a stop string comes with its text.
  EXPECT_EQ(text_tokens({{"</think>", {}},
                         {"a", {}},
                         {"b c", {{Kind::kText, "ab "}}},
                         {"d", {{Kind::kText, "cd"}}},
                         {"<end>", {}}}),
            (Tokens{{"a", "b c", "d", "<end>"}}));
  // A call's mark is not the text's before it, nor the text's behind it.
  EXPECT_EQ(text_tokens({{"Hi", {{Kind::kText, "Hi"}}},
                         {"<to", {}},
                         {"ol>", {{Kind::kCallBegin, "f"}}},
                         {"{}", {{Kind::kArguments, "{}"}}},
                         {"</to", {{Kind::kCallEnd, ""}}},
                         {"ol>", {}},
                         {"So", {{Kind::kText, "So"}}},
                         {"<end>", {}}}),
            (Tokens{{"Hi"}, {"So", "<end>"}}));
}

TEST(ResponseWriter, ACutAnswerIsIncomplete) {
  const Streamed cut =
      run_response({{{{Kind::kText, "He"}}, ""}, {{{Kind::kText, "l"}}, "length"}});
  EXPECT_EQ(types(cut).back(), "incomplete");
  EXPECT_EQ(cut.whole.at("status").as_string(), "incomplete");
  EXPECT_EQ(cut.whole.at("incomplete_details").at("reason").as_string(), "max_output_tokens");
  EXPECT_EQ(cut.whole.at("output").at(0).at("status").as_string(), "incomplete");
}

TEST(ResponseWriter, NothingSaidIsAnEmptyMessage) {
  const Streamed none = run_response({{{}, "stop"}});
  EXPECT_EQ(none.whole.at("output").at(0).at("content").at(0).at("text").as_string(), "");
}

TEST(ResponseWriter, AFailureEndsTheStream) {
  const auto stream = response_writer(form(true));
  std::string text = stream->add(response_piece({{Kind::kText, "He"}}), nullptr);
  text += stream->fail({ErrorCode::kInternal, "broken", {}});
  const auto events = parsed_stream(text);
  EXPECT_EQ(events.back().at("type").as_string(), "response.failed");
  EXPECT_EQ(events.back().at("response").at("status").as_string(), "failed");
  EXPECT_EQ(events.back().at("response").at("error").at("message").as_string(), "broken");
}

}  // namespace
}  // namespace saccade::api
