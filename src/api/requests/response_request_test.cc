// /v1/responses as clients send it: the chat request that it becomes, and refusals that name the
// member and say what to do instead.
#include "api/requests/response_request.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

namespace saccade::api {
namespace {

Result<ResponseRequest> read_response(const std::string& members,
                                      std::vector<ItemText> history = {}) {
  TRY(ResponseRequest request, parse_response_request("{" + members + "}"));
  TRY_DO(add_conversation(request, history));
  return request;
}

ResponseRequest must_read_response(const std::string& members, std::vector<ItemText> history = {}) {
  auto request = read_response(members, std::move(history));
  EXPECT_TRUE(request) << members << ": " << request.error().message;
  return request ? *std::move(request) : ResponseRequest();
}

TEST(ResponseRequest, ATextIsOneMessageOfTheUser) {
  const auto request = must_read_response(R"("input": "hi", "instructions": "Be brief.")");
  ASSERT_EQ(request.chat.messages.size(), 2u);
  EXPECT_EQ(request.chat.messages[0].role, "system");
  EXPECT_EQ(request.chat.messages[0].content[0].text, "Be brief.");
  EXPECT_EQ(request.chat.messages[1].role, "user");
  EXPECT_FALSE(request.chat.messages[1].has_parts);
  EXPECT_EQ(request.chat.messages[1].content[0].text, "hi");
  EXPECT_TRUE(request.store);
  EXPECT_EQ(must_read_response(R"("input": "hi", "instructions": "")").chat.messages.size(), 1u);
}

TEST(ResponseRequest, ItemsBecomeMessages) {
  const auto request = must_read_response(R"("input": [
      {"role": "user", "content": [{"type": "input_text", "text": "What?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"}]},
      {"type": "reasoning", "id": "rs_1", "summary": [],
       "content": [{"type": "reasoning_text", "text": "Hm."}]},
      {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
       "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
      {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "one"},
      {"type": "function_call_output", "call_id": "c2", "output": [
        {"type": "input_image", "image_url": "data:image/png;base64,BB"}]},
      {"type": "message", "role": "assistant", "content": "So."}])");
  const auto& messages = request.chat.messages;
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_TRUE(messages[0].has_parts);
  EXPECT_EQ(messages[0].content[1].kind, ContentPart::Kind::kImage);
  ASSERT_EQ(request.chat.images.size(), 2u);
  EXPECT_EQ(request.chat.images[0].detail, ImageDetail::kLow);
  // Thoughts, text and calls of one turn are one message, as chat has them.
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].content[0].text, "I look.");
  EXPECT_EQ(messages[1].other.at("reasoning_content").as_string(), "Hm.");
  ASSERT_EQ(messages[1].other.at("tool_calls").as_array().size(), 2u);
  EXPECT_EQ(messages[1].other.at("tool_calls").at(0).at("function").at("arguments").as_string(),
            "{\"a\": 1}");
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[2].other.at("tool_call_id").as_string(), "c1");
  EXPECT_EQ(messages[3].content[0].index, 1u);
  EXPECT_EQ(messages[4].role, "assistant");
}

TEST(ResponseRequest, TheConversationGoesOn) {
  const auto turn = std::make_shared<const std::string>(R"([{"role": "user", "content": "a"}])");
  const auto said = std::make_shared<const std::string>(
      R"([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]}])");
  const auto request = must_read_response(R"("input": "c", "instructions": "new")", {turn, said});
  ASSERT_EQ(request.chat.messages.size(), 4u);
  EXPECT_EQ(request.chat.messages[0].content[0].text, "new");
  EXPECT_EQ(request.chat.messages[2].content[0].text, "b");
  EXPECT_EQ(request.chat.messages[3].content[0].text, "c");
}

TEST(ResponseRequest, ToolsAndFormAreChats) {
  const auto request = must_read_response(R"("input": "x", "max_output_tokens": 7, "top_k": 3,
      "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
      "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
      "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}})");
  EXPECT_EQ(request.chat.sampling.max_tokens, 7);
  EXPECT_EQ(request.chat.sampling.top_k, 3);
  EXPECT_EQ(request.chat.tools.choice, ToolChoice::kNamed);
  EXPECT_FALSE(request.chat.tools.parallel);
  EXPECT_EQ(request.chat.tools.list->at(0).at("function").at("name").as_string(), "f");
  EXPECT_EQ(request.chat.sampling.structured->text, R"({"type":"object"})");
  EXPECT_EQ(request.chat.sampling.structured->param, "text.format");
  EXPECT_TRUE(request.chat.unknown.empty());
}

TEST(ResponseRequest, WhatAsksForNothingPasses) {
  const auto request = must_read_response(R"("input": "x", "background": false, "include": [],
      "max_tool_calls": null, "truncation": "disabled", "service_tier": "auto", "n": 1,
      "reasoning": {"effort": "low"}, "user": "u", "metadata": {"a": "b"},
      "stream_options": {"include_obfuscation": false}, "text": {"format": {"type": "text"}},
      "include": ["reasoning.encrypted_content"], "conversation": null, "stream": true)");
  EXPECT_TRUE(request.chat.unknown.empty());
  EXPECT_TRUE(request.chat.delivery.stream);
}

TEST(ResponseRequest, EffortAndVerbosityAreShownToTheTemplate) {
  EXPECT_EQ(must_read_response(
                R"("input": "a", "reasoning": {"effort": "high"}, "text": {"verbosity": "low"})")
                .chat.chat_template_kwargs,
            (json::object{
                {"verbosity", "low"}, {"reasoning_effort", "high"}, {"enable_thinking", true}}));
  EXPECT_TRUE(must_read_response(R"("input": "a", "reasoning": {"summary": "auto"})")
                  .chat.chat_template_kwargs.empty());
}

TEST(ResponseRequest, SomeToolsAreAllowed) {
  const auto request = must_read_response(
      R"("input": "a", "tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}],
         "tool_choice": {"type": "allowed_tools", "mode": "required",
                         "tools": [{"type": "function", "name": "g"}]})");
  EXPECT_EQ(request.chat.tools.choice, ToolChoice::kRequired);
  ASSERT_EQ(request.chat.tools.list->size(), 1u);
}

TEST(ResponseRequest, LogprobsAreIncluded) {
  const auto request = must_read_response(
      R"("input": "x", "include": ["message.output_text.logprobs"], "top_logprobs": 3)");
  EXPECT_TRUE(request.chat.logprobs);
  EXPECT_EQ(request.chat.top_logprobs, 3);
  EXPECT_FALSE(must_read_response(R"("input": "x", "top_logprobs": 0)").chat.logprobs);
  // What cannot change an answer may be asked for.
  EXPECT_FALSE(must_read_response(R"("input": "x", "include": ["reasoning.encrypted_content",
      "file_search_call.results", "web_search_call.action.sources"])")
                   .chat.logprobs);
}

struct RefusedResponse {
  std::string members;
  std::string param;
  std::string says;
};

TEST(ResponseRequest, RefusalsNameTheMember) {
  const RefusedResponse cases[] = {
      {R"("instructions": "x")", "input", "missing"},
      {R"("input": [])", "input", "empty"},
      {R"("input": [], "instructions": "x")", "input", "empty"},
      {R"("input": 5)", "input", "an integer"},
      {R"("input": [5])", "input", "input[0]"},
      {R"("input": [{"type": "web_search_call"}])", "input", "web_search_call"},
      {R"("input": [{"type": "item_reference", "id": "x"}])", "input", "previous_response_id"},
      {R"("input": [{"role": "tool", "content": "x"}])", "input", "'tool'"},
      {R"("input": [{"role": "user"}])", "input", "'content'"},
      {R"("input": [{"role": "user", "content": [{"type": "input_file"}]}])", "input",
       "input[0].content[0]"},
      {R"("input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}])",
       "input", "image_url"},
      {R"("input": [{"type": "function_call", "name": "f", "arguments": "{}"}])", "input",
       "call_id"},
      {R"("input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}])",
       "input", "arguments"},
      {R"("input": [{"type": "function_call_output", "call_id": "c"}])", "input", "output"},
      {R"("input": "x", "messages": [{}])", "messages", "input"},
      {R"("input": "x", "max_tokens": 5)", "max_tokens", "max_output_tokens"},
      {R"("input": "x", "max_output_tokens": 0)", "max_output_tokens", "0"},
      {R"("input": "x", "max_output_tokens": 2, "min_tokens": 3)", "min_tokens",
       "max_output_tokens"},
      {R"("input": "x", "response_format": {"type": "text"})", "response_format", "text.format"},
      {R"("input": "x", "background": true)", "background", "stream"},
      {R"("input": "x", "conversation": "c")", "conversation", "previous_response_id"},
      {R"("input": "x", "prompt": {"id": "p"})", "prompt", "instructions"},
      {R"("input": "x", "truncation": "auto")", "truncation", "auto"},
      {R"("input": "x", "top_logprobs": 2)", "top_logprobs", "include"},
      {R"("input": "x", "logprobs": true)", "logprobs", "include"},
      {R"("input": "x", "include": "all")", "include", "array"},
      {R"("input": "x", "include": ["message.output_text.logprob"])", "include", "text.logprob'"},
      {R"("input": "x", "include": [5])", "include", "an integer"},
      {R"("input": "x", "n": 2)", "n", "2"},
      {R"("input": "x", "tools": [{"type": "web_search"}])", "tools", "web_search"},
      {R"("input": "x", "tools": [{"type": "function"}])", "tools", "name"},
      {R"("input": "x", "tool_choice": {"type": "mcp"})", "tool_choice", "mcp"},
      {R"("input": "x", "tool_choice": "required")", "tool_choice", "tools"},
      {R"("input": "x", "text": {"format": {"type": "yaml"}})", "text.format", "yaml"},
      {R"("input": "x", "text": {"format": {"type": "json_schema"}})", "text.format", "schema"},
      {R"("input": "x", "text": {"shape": 1})", "text", "shape"},
      {R"("input": "x", "text": {"format": {"type": "json_object"}}, "guided_regex": "a")",
       "text.format", "guided_regex"},
      {R"("input": "x", "metadata": {"a": 1})", "metadata", "'a'"},
      {R"("input": "x", "temperature": -1)", "temperature", "-1"},
      {R"("input": "x", "previous_response_id": 5)", "previous_response_id", "string"},
      {R"("input": "x", "request_id": "r")", "request_id", "server"},
  };
  for (const RefusedResponse& one : cases) {
    const auto request = read_response(one.members);
    ASSERT_FALSE(request) << one.members;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalid) << one.members;
    const std::string& message = request.error().message;
    EXPECT_NE(message.find(one.says), std::string::npos) << one.members << ": " << message;
    if (!request.error().param.empty()) {
      EXPECT_EQ(request.error().param, one.param) << message;
    }
    EXPECT_NE(message.find(one.param), std::string::npos) << one.members << ": " << message;
  }
}

}  // namespace
}  // namespace saccade::api
