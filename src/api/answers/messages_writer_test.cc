// The events of /v1/messages: their order, their numbers, and that they come to the whole answer.
#include "api/answers/messages_writer.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>
#include <vector>

namespace saccade::api {
namespace {

using Kind = SaidPart::Kind;

struct Step {
  std::vector<SaidPart> said;
  std::string_view finish = {};
  std::string stop = {};
};

AnswerPiece message_piece(const Step& step) {
  AnswerPiece made;
  made.said = step.said;
  made.tokens = 1;
  made.rest.finish_reason = step.finish;
  if (!step.stop.empty()) made.rest.stop_string = step.stop;
  return made;
}

SaidPart text(std::string t) { return {Kind::kText, std::move(t), -1, ""}; }
SaidPart thought(std::string t) { return {Kind::kReasoning, std::move(t), -1, ""}; }
SaidPart call(int n, std::string name) {
  return {Kind::kCallBegin, std::move(name), n, "call_" + std::to_string(n)};
}
SaidPart arguments(int n, std::string t) { return {Kind::kArguments, std::move(t), n, ""}; }
SaidPart end(int n) { return {Kind::kCallEnd, "", n, ""}; }

std::vector<json::value> parsed_events(const std::string& stream) {
  std::vector<json::value> events;
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::size_t end = stream.find("\n\n", at);
    const std::string event = stream.substr(at, end - at);
    at = end + 2;
    const std::size_t data = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: ") && data != std::string::npos) << event;
    events.push_back(json::parse(event.substr(data + 7)).value());
    EXPECT_EQ(event.substr(7, data - 7), std::string(events.back().at("type").as_string()));
  }
  return events;
}

struct Ran {
  std::vector<json::value> events;
  json::value whole;
  std::vector<std::string> types;
};

// What clients put together from the events has to be the whole answer.
json::value gathered(const std::vector<json::value>& events) {
  json::value message = events.at(0).at("message");
  std::vector<std::string> inputs;
  for (const json::value& event : events) {
    const std::string_view type = event.at("type").as_string();
    auto& content = message.as_object()["content"].as_array();
    if (type == "content_block_start") {
      EXPECT_EQ(event.at("index").as_int64(), static_cast<std::int64_t>(content.size()));
      content.push_back(event.at("content_block"));
      inputs.emplace_back();
    } else if (type == "content_block_delta") {
      EXPECT_EQ(event.at("index").as_int64(), static_cast<std::int64_t>(content.size()) - 1);
      const auto& delta = event.at("delta");
      const std::string_view kind = delta.at("type").as_string();
      if (kind == "input_json_delta") {
        inputs.back() += delta.at("partial_json").as_string();
        const auto input = json::parse(inputs.back());
        if (input) content.back().as_object()["input"] = *input;
      } else {
        const std::string_view member = kind == "text_delta" ? "text" : "thinking";
        content.back().as_object()[member].as_string().append(delta.at(member).as_string());
      }
    } else if (type == "message_delta") {
      for (const auto& member : event.at("delta").as_object())
        message.as_object()[member.key()] = member.value();
      for (const auto& member : event.at("usage").as_object())
        message.as_object()["usage"].as_object()[member.key()] = member.value();
    }
  }
  return message;
}

Ran run_messages(const std::vector<Step>& steps) {
  Ran ran;
  const auto stream = messages_writer({{"msg_1", 7, "m"}, true});
  const auto whole = messages_writer({{"msg_1", 7, "m"}, false});
  const Usage usage{10, 5, 4, 6};
  std::string sent;
  for (const Step& step : steps) {
    sent += stream->add(message_piece(step), &usage);
    EXPECT_EQ(whole->add(message_piece(step), nullptr), "");
  }
  sent += stream->finish(usage, nullptr);
  ran.events = parsed_events(sent);
  ran.whole = json::parse(whole->finish(usage, nullptr)).value();
  for (const json::value& event : ran.events) ran.types.emplace_back(event.at("type").as_string());
  EXPECT_EQ(gathered(ran.events), ran.whole);
  return ran;
}

TEST(MessagesWriter, TextComesInThisOrder) {
  const Ran ran = run_messages({{{text("He")}}, {{text("llo")}}, {{}, "stop"}});
  EXPECT_EQ(ran.types,
            (std::vector<std::string>{"message_start", "ping", "content_block_start",
                                      "content_block_delta", "content_block_delta",
                                      "content_block_stop", "message_delta", "message_stop"}));
  const auto& start = ran.events[0].at("message");
  EXPECT_TRUE(start.at("stop_reason").is_null());
  EXPECT_EQ(start.at("content").as_array().size(), 0u);
  // What was read from the cache is not the input's.
  EXPECT_EQ(start.at("usage").at("input_tokens").as_int64(), 6);
  EXPECT_EQ(start.at("usage").at("cache_read_input_tokens").as_int64(), 4);
  EXPECT_EQ(start.at("usage").at("output_tokens").as_int64(), 0);
  EXPECT_EQ(ran.whole.at("content").at(0).at("text").as_string(), "Hello");
  EXPECT_EQ(ran.whole.at("stop_reason").as_string(), "end_turn");
  EXPECT_TRUE(ran.whole.at("stop_sequence").is_null());
  EXPECT_EQ(ran.whole.at("usage").at("output_tokens").as_int64(), 5);
}

TEST(MessagesWriter, ThoughtsTextAndCallsAreBlocks) {
  const Ran ran = run_messages(
      {{{thought("Hm")}},
       {{thought("."), text("So")}},
       {{text(":"), call(0, "f"), arguments(0, "{\"b\"")}},
       {{arguments(0, ": 1.50, \"a\": []}"), end(0), call(1, "g"), arguments(1, "{}"), end(1)}},
       {{}, "tool_calls"}});
  const auto& content = ran.whole.at("content");
  ASSERT_EQ(content.as_array().size(), 4u);
  EXPECT_EQ(content.at(0).at("thinking").as_string(), "Hm.");
  EXPECT_EQ(content.at(1).at("text").as_string(), "So:");
  EXPECT_EQ(content.at(2).at("id").as_string(), "call_0");
  EXPECT_EQ(content.at(2).at("name").as_string(), "f");
  EXPECT_EQ(content.at(2).at("input"), json::parse(R"({"b": 1.5, "a": []})").value());
  EXPECT_EQ(content.at(3).at("name").as_string(), "g");
  EXPECT_EQ(ran.whole.at("stop_reason").as_string(), "tool_use");
  EXPECT_EQ(ran.whole.at("usage").at("output_tokens_details").at("thinking_tokens").as_int64(), 2);
}

TEST(MessagesWriter, EndsHaveReasons) {
  const Ran cut = run_messages({{{text("He")}}, {{text("l")}, "length"}});
  EXPECT_EQ(cut.whole.at("stop_reason").as_string(), "max_tokens");
  const Ran stopped = run_messages({{{text("He")}}, {{}, "stop", "ll"}});
  EXPECT_EQ(stopped.whole.at("stop_reason").as_string(), "stop_sequence");
  EXPECT_EQ(stopped.whole.at("stop_sequence").as_string(), "ll");
}

TEST(MessagesWriter, ACallThatWasCutHasNoInput) {
  const Ran cut = run_messages({{{call(0, "f"), arguments(0, "{\"a\": ")}}, {{}, "length"}});
  EXPECT_EQ(cut.whole.at("content").at(0).at("input"), json::object());
}

TEST(MessagesWriter, NothingSaidIsNoBlock) {
  const Ran none = run_messages({{{}, "stop"}});
  EXPECT_EQ(none.whole.at("content").as_array().size(), 0u);
}

TEST(MessagesWriter, AFailureEndsTheStream) {
  const auto stream = messages_writer({{"msg_1", 7, "m"}, true});
  std::string sent = stream->add(message_piece({{text("He")}}), nullptr);
  sent += stream->fail({ErrorCode::kInternal, "broken", {}});
  const auto events = parsed_events(sent);
  EXPECT_EQ(events.back().at("type").as_string(), "error");
  EXPECT_EQ(events.back().at("error").at("type").as_string(), "api_error");
  EXPECT_EQ(events.back().at("error").at("message").as_string(), "broken");
}

}  // namespace
}  // namespace saccade::api
