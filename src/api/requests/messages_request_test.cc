// /v1/messages as clients send it: the chat request that it becomes, and refusals that name the
// member and say what to do instead.
#include "api/requests/messages_request.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

namespace saccade::api {
namespace {

Result<ChatRequest> read_messages(const std::string& members) {
  return parse_messages_request(R"({"max_tokens": 9, )" + members + "}");
}

ChatRequest must_read_messages(const std::string& members) {
  auto request = read_messages(members);
  EXPECT_TRUE(request) << members << ": " << request.error().message;
  return request ? *std::move(request) : ChatRequest();
}

std::string user(const std::string& blocks) {
  return R"("messages": [{"role": "user", "content": )" + blocks + "}]";
}
const std::string kHi = user("\"hi\"");

TEST(MessagesRequest, TextsBecomeMessages) {
  const auto request = must_read_messages(R"("system": "Be brief.", "model": "m", )" + kHi);
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[0].content[0].text, "Be brief.");
  EXPECT_FALSE(request.messages[1].has_parts);
  EXPECT_EQ(request.messages[1].content[0].text, "hi");
  EXPECT_EQ(request.sampling.max_tokens, 9);
  EXPECT_TRUE(request.add_generation_prompt);
  const auto blocks = must_read_messages(
      R"("system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                    {"type": "text", "text": "b"}], )" +
      kHi);
  EXPECT_EQ(blocks.messages[0].content.size(), 2u);
  EXPECT_EQ(must_read_messages(R"("system": [], )" + kHi).messages.size(), 1u);
  EXPECT_EQ(must_read_messages(R"("system": "", )" + kHi).messages.size(), 1u);
  EXPECT_EQ(
      must_read_messages(R"("system": [{"type": "text", "text": ""}], )" + kHi).messages.size(),
      1u);
}

// Claude Code's, another one in each request: no prefix of it would be found again.
TEST(MessagesRequest, TheBillingLineIsLeftOut) {
  const std::string billing = R"({"type": "text", "text": "x-anthropic-billing-header: cch=1;"})";
  const auto request = must_read_messages(R"("system": [)" + billing +
                                          R"(, {"type": "text", "text": "a"}], )" + kHi);
  ASSERT_EQ(request.messages.size(), 2u);
  ASSERT_EQ(request.messages[0].content.size(), 1u);
  EXPECT_EQ(request.messages[0].content[0].text, "a");
  EXPECT_EQ(must_read_messages(R"("system": [)" + billing + "], " + kHi).messages.size(), 1u);
}

TEST(MessagesRequest, ContextIsTheUsers) {
  const auto request = must_read_messages(R"("messages": [{"role": "ctx", "content": "a"},
                                            {"role": "msg", "content": "b"}])");
  ASSERT_EQ(request.messages.size(), 1u);
  EXPECT_EQ(request.messages[0].role, "user");
}

TEST(MessagesRequest, EffortIsShownToTheTemplate) {
  EXPECT_EQ(
      must_read_messages(R"("output_config": {"effort": "low"}, )" + kHi).chat_template_kwargs,
      (json::object{{"reasoning_effort", "low"}, {"enable_thinking", true}}));
  EXPECT_EQ(must_read_messages(
                R"("output_config": {"effort": "low"}, "thinking": {"type": "disabled"}, )" + kHi)
                .chat_template_kwargs,
            (json::object{{"enable_thinking", false}, {"reasoning_effort", "low"}}));
}

TEST(MessagesRequest, BlocksBecomeMessages) {
  const auto request = must_read_messages(R"("messages": [
      {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "I "}, {"type": "text", "text": "look."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": [2]}},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {}}]},
      {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": [
          {"type": "text", "text": "see"},
          {"type": "image", "source": {"type": "url", "url": "https://h/x.png"}}]},
        {"type": "text", "text": "And?"}]},
      {"role": "user", "content": "Now?"}])");
  const auto& messages = request.messages;
  ASSERT_EQ(messages.size(), 5u);
  ASSERT_EQ(request.images.size(), 2u);
  EXPECT_EQ(request.images[0].url, "data:image/png;base64,AA==");
  EXPECT_EQ(request.images[1].url, "https://h/x.png");
  EXPECT_EQ(messages[0].content[1].kind, ContentPart::Kind::kImage);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].content.size(), 2u);
  EXPECT_EQ(messages[1].other.at("reasoning_content").as_string(), "Hm.");
  const auto& calls = messages[1].other.at("tool_calls");
  ASSERT_EQ(calls.as_array().size(), 2u);
  EXPECT_EQ(calls.at(0).at("id").as_string(), "t1");
  EXPECT_EQ(calls.at(0).at("function").at("arguments"), json::parse(R"({"b":1,"a":[2]})").value());
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[2].other.at("tool_call_id").as_string(), "t1");
  EXPECT_FALSE(messages[2].has_parts);
  EXPECT_EQ(messages[3].content[1].index, 1u);
  EXPECT_TRUE(messages[3].other.at("is_error").as_bool());
  // Neighbours of one role are one message.
  EXPECT_EQ(messages[4].role, "user");
  ASSERT_EQ(messages[4].content.size(), 2u);
  EXPECT_EQ(messages[4].content[1].text, "Now?");
}

TEST(MessagesRequest, TheAssistantsLastWordsGoOn) {
  const auto request = must_read_messages(
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "The ("}])");
  EXPECT_TRUE(request.continue_final_message);
  EXPECT_FALSE(request.add_generation_prompt);
  EXPECT_FALSE(must_read_messages(kHi).continue_final_message);
}

TEST(MessagesRequest, ToolsAreChats) {
  const std::string tools =
      R"(, "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}},
                     {"type": "custom", "name": "g", "input_schema": {}, "strict": true}])";
  const auto automatic = must_read_messages(kHi + tools);
  EXPECT_EQ(automatic.tools.choice, ToolChoice::kAuto);
  EXPECT_TRUE(automatic.tools.parallel);
  EXPECT_EQ(automatic.tools.list->at(0),
            json::parse(R"({"type": "function", "function": {"name": "f", "description": "d",
                            "parameters": {"type": "object"}}})")
                .value());
  const auto choice = [&](const std::string& text) {
    return must_read_messages(kHi + tools + R"(, "tool_choice": )" + text).tools;
  };
  EXPECT_EQ(choice(R"({"type": "any"})").choice, ToolChoice::kRequired);
  EXPECT_EQ(choice(R"({"type": "none"})").choice, ToolChoice::kNone);
  EXPECT_FALSE(choice(R"({"type": "auto", "disable_parallel_tool_use": true})").parallel);
  const ToolFields named = choice(R"({"type": "tool", "name": "g"})");
  EXPECT_EQ(named.choice, ToolChoice::kNamed);
  EXPECT_EQ(named.name, "g");
}

TEST(MessagesRequest, SamplingAndForm) {
  const auto request = must_read_messages(
      kHi + R"(, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop_sequences": ["x", "yy"],
      "stream": true, "metadata": {"user_id": "u"}, "service_tier": "auto", "seed": 4,
      "thinking": {"type": "enabled", "budget_tokens": 1024},
      "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}})");
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.seed, 4);
  EXPECT_EQ(request.sampling.stop, (std::vector<std::string>{"x", "yy"}));
  EXPECT_TRUE(request.delivery.stream);
  EXPECT_TRUE(request.unknown.empty());
  EXPECT_TRUE(request.chat_template_kwargs.at("enable_thinking").as_bool());
  EXPECT_EQ(request.sampling.structured->param, "output_config.format");
  // What the request says itself to the template wins.
  const auto own = must_read_messages(kHi + R"(, "thinking": {"type": "adaptive"},
      "chat_template_kwargs": {"enable_thinking": false})");
  EXPECT_FALSE(own.chat_template_kwargs.at("enable_thinking").as_bool());
  EXPECT_EQ(must_read_messages(kHi + R"(, "strange": 1)").unknown,
            std::vector<std::string>{"strange"});
}

TEST(MessagesRequest, CountingNeedsNoLength) {
  EXPECT_TRUE(parse_count_tokens_request("{" + kHi + "}"));
  const auto refused = parse_messages_request("{" + kHi + "}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "max_tokens");
  EXPECT_EQ(token_count_response(5), R"({"input_tokens":5})");
}

struct RefusedMessages {
  std::string members;
  std::string says;
};

TEST(MessagesRequest, RefusalsNameTheMember) {
  const std::string called =
      R"("messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f",
          "input": {}}]}])";
  const RefusedMessages cases[] = {
      {R"("system": "x")", "'messages' is missing"},
      {R"("messages": [])", "'messages' is empty"},
      {R"("messages": [5])", "messages[0] is an integer"},
      {R"("messages": [{"role": "tool", "content": "x"}])", "the role is 'tool'"},
      {R"("messages": [{"role": "user"}])", "'content' is missing"},
      {R"("messages": [{"role": "user", "content": []}])", "messages[0]: 'content' is empty"},
      {R"("messages": [{"role": "user", "content": 5}])", "'content' is an integer"},
      {R"("messages": [{"role": "system", "content": "x"}])", "nothing that could be answered"},
      {R"("messages": [{"role": "assistant", "content": []}])", "nothing that could be answered"},
      {R"("messages": [{"role": "assistant", "content": ""}])", "is empty"},
      {called, "'tool_result'"},
      {user("[5]"), "messages[0].content[0]"},
      {user(R"([{"type": "document"}])"), "'document' is not supported"},
      {user(R"([{"type": "tool_use"}])"), "'tool_use' is not supported here"},
      {user(R"([{"type": "text"}])"), "'text'"},
      {user(R"([{"type": "image"}])"), "'source' is missing"},
      {user(R"([{"type": "image", "source": {"type": "file", "file_id": "f"}}])"), "base64"},
      {user(R"([{"type": "image", "source": {"type": "x"}}])"), "the source has the type 'x'"},
      {user(R"([{"type": "image", "source": {"type": "base64", "media_type": "image/a;b,",
                 "data": ""}}])"),
       "'media_type' is 'image/a;b,'"},
      {user(R"([{"type": "tool_result"}])"), "tool_use_id"},
      {user(R"([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document"}]}])"),
       "content[0].content[0]"},
      {R"("messages": [{"role": "assistant", "content": [{"type": "image"}]}])", "'image'"},
      {R"("messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t",
          "name": "f", "input": "{}"}]}])",
       "'input' is a string"},
      {kHi + R"(, "system": [{"type": "image"}])", "system[0]"},
      {kHi + R"(, "system": 5)", "'system' is an integer"},
      {kHi + R"(, "tools": [{"type": "web_search_20250305", "name": "w"}])", "web_search_20250305"},
      {kHi + R"(, "tools": [{"name": "f"}])", "tools[0]: 'input_schema' is missing"},
      {kHi + R"(, "tools": [{"input_schema": {}}])", "name"},
      {kHi + R"(, "tool_choice": {"type": "any"})", "tool_choice"},
      {kHi + R"(, "tool_choice": {"type": "required"})", "auto, any, tool and none"},
      {kHi + R"(, "tool_choice": "auto")", "'tool_choice' is a string"},
      {kHi + R"(, "stop": ["x"])", "'stop_sequences'"},
      {kHi + R"(, "stop_sequences": [""])", "'stop_sequences' holds an empty string"},
      {kHi + R"(, "stop_sequences": [5])", "'stop_sequences' holds an integer"},
      {kHi + R"(, "thinking": {"type": "maybe"})", "'maybe'"},
      {kHi + R"(, "n": 2)", "'n' is 2"},
      {kHi + R"(, "max_completion_tokens": 2)", "send 'max_tokens'"},
      {kHi + R"(, "container": "c")", "container"},
      {kHi + R"(, "mcp_servers": [{}])", "mcp_servers"},
      {kHi + R"(, "output_config": {"format": {"type": "text"}})", "output_config.format"},
      {kHi + R"(, "output_config": {"shape": 1})", "'output_config.shape'"},
      {kHi + R"(, "output_format": {"type": "json_schema"})", "needs a 'schema'"},
      {kHi + R"(, "temperature": -1)", "'temperature' is -1"},
      {kHi + R"(, "stream": 1)", "stream"},
  };
  for (const RefusedMessages& one : cases) {
    const auto request = read_messages(one.members);
    ASSERT_FALSE(request) << one.members;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalid) << one.members;
    EXPECT_NE(request.error().message.find(one.says), std::string::npos)
        << one.members << ": " << request.error().message;
  }
}

}  // namespace
}  // namespace saccade::api
