#include "api/requests/fields/tool_fields.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>

#include "api/requests/chat_request.h"

namespace saccade::api {
namespace {

const std::string kTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "description": "d",
        "parameters": {"type": "object", "properties": {}}, "strict": true}},
       {"type": "function", "function": {"name": "a.b-c:d/e_1"}}])";

Result<ChatRequest> read_chat(const std::string& members) {
  return parse_chat_request(R"({"messages": [{"role": "user", "content": "x"}], )" + members + "}");
}

Result<ChatRequest> with_message(const std::string& message) {
  return parse_chat_request(R"({"messages": [{"role": "user", "content": "x"}, )" + message + "]}");
}

std::string allowed(const std::string& mode, const std::string& tools) {
  return R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": ")" + mode +
         R"(", "tools": [)" + tools + "]}}";
}

// Of the tools those alone are left that may be called.
TEST(ToolFields, SomeToolsAreAllowed) {
  const std::string one = R"({"type": "function", "function": {"name": "a.b-c:d/e_1"}})";
  const auto automatic = read_chat(kTools + allowed("auto", one));
  ASSERT_TRUE(automatic) << automatic.error().message;
  EXPECT_EQ(automatic->tools.choice, ToolChoice::kAuto);
  ASSERT_EQ(automatic->tools.list->size(), 1U);
  EXPECT_EQ(automatic->tools.list->at(0).at("function").at("name"), "a.b-c:d/e_1");
  EXPECT_EQ(read_chat(kTools + allowed("required", one))->tools.choice, ToolChoice::kRequired);
}

TEST(ToolFields, ChoicesAsOpenAiHasThem) {
  const auto choice = [](const std::string& members) {
    const auto request = read_chat(members);
    EXPECT_TRUE(request) << request.error().message;
    return request->tools;
  };
  EXPECT_EQ(choice(kTools).choice, ToolChoice::kAuto);
  EXPECT_EQ(choice(kTools).list->size(), 2U);
  EXPECT_TRUE(choice(kTools).parallel);
  EXPECT_EQ(choice(kTools + R"(, "tool_choice": null)").choice, ToolChoice::kAuto);
  EXPECT_EQ(choice(kTools + R"(, "tool_choice": "auto")").choice, ToolChoice::kAuto);
  EXPECT_EQ(choice(kTools + R"(, "tool_choice": "none")").choice, ToolChoice::kNone);
  EXPECT_TRUE(choice(kTools + R"(, "tool_choice": "none")").list);
  EXPECT_EQ(choice(kTools + R"(, "tool_choice": "required")").choice, ToolChoice::kRequired);
  EXPECT_FALSE(choice(kTools + R"(, "parallel_tool_calls": false)").parallel);
  const ToolFields named =
      choice(kTools + R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(named.choice, ToolChoice::kNamed);
  EXPECT_EQ(named.name, "f");
  // Without tools there is nothing to choose.
  for (const std::string none : {R"("tools": null)", R"("tools": [], "tool_choice": "auto")",
                                 R"("tool_choice": "none", "functions": [])"}) {
    EXPECT_EQ(choice(none).choice, ToolChoice::kNone);
    EXPECT_FALSE(choice(none).list);
  }
}

TEST(ToolFields, RefusalsSayWhatWhereAndWhatIsPossible) {
  const auto expect = [](const std::string& members, const std::string& param,
                         const std::string& message) {
    const auto request = read_chat(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.error().param, param) << members;
    EXPECT_EQ(request.error().message, message);
  };
  const auto tool = [](const std::string& text) { return "\"tools\": [" + text + "]"; };
  expect(R"("tools": {})", "tools", "'tools' is an object, an array is required");
  expect(tool("5"), "tools", "tools[0] is an integer, an object is required");
  expect(tool(R"({"function": {"name": "f"}})"), "tools",
         "tools[0]: 'type' is missing, \"function\" is required");
  expect(tool(R"({"type": "web_search"})"), "tools",
         "tools[0]: the type is \"web_search\"; only \"function\" is supported");
  expect(tool(R"({"type": "function"})"), "tools", "tools[0]: 'function' is missing");
  expect(tool(R"({"type": "function", "function": []})"), "tools",
         "tools[0]: 'function' is an array, an object is required");
  expect(tool(R"({"type": "function", "function": {}})"), "tools", "tools[0]: 'name' is missing");
  expect(tool(R"({"type": "function", "function": {"name": 1}})"), "tools",
         "tools[0]: 'name' is an integer, a string is required");
  expect(tool(R"({"type": "function", "function": {"name": "a b"}})"), "tools",
         "tools[0]: the name is 'a b'; letters, digits and _ - . : / are possible");
  expect(tool(R"({"type": "function", "function": {"name": ""}})"), "tools",
         "tools[0]: the name is ''; letters, digits and _ - . : / are possible");
  expect(tool(R"({"type": "function", "function": {"name": "f", "parameters": []}})"), "tools",
         "tools[0]: 'parameters' is an array, an object is required");
  expect(tool(R"({"type": "function", "function": {"name": "f", "description": 1}})"), "tools",
         "tools[0]: 'description' is an integer, a string is required");
  expect(R"("tool_choice": "required")", "tool_choice",
         "'tool_choice' asks for a call, and the request has no 'tools' to call");
  expect(kTools + R"(, "tool_choice": "any")", "tool_choice",
         "'tool_choice' is 'any'; auto, none, required, {\"type\": \"function\", \"function\": "
         "{\"name\": ...}} and {\"type\": \"allowed_tools\", ...} are known");
  expect(kTools + R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})",
         "tool_choice", "'tool_choice' names 'g', which is none of the 2 tools");
  expect(kTools + R"(, "tool_choice": {"type": "allowed_tools"})", "tool_choice",
         "'tool_choice.allowed_tools' is missing, an object is required");
  expect(kTools + R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "any"}})",
         "tool_choice", "'tool_choice.allowed_tools': 'mode' must be auto or required");
  expect(kTools + allowed("auto", R"({"type": "function", "function": {"name": "g"}})"),
         "tool_choice", "'tool_choice' allows 'g', which is none of the 2 tools");
  expect(kTools + allowed("auto", ""), "tool_choice",
         "'tool_choice.allowed_tools': 'tools' is no array of at least one tool");
  expect(kTools + R"(, "parallel_tool_calls": "no")", "parallel_tool_calls",
         "'parallel_tool_calls' is a string, a boolean is required");
  expect(R"("functions": [{"name": "f"}])", "functions",
         "'functions' is not supported for chat: it is the older form of 'tools', which is");
  expect(
      R"("function_call": "auto")", "function_call",
      "'function_call' is not supported for chat: it is the older form of 'tool_choice', which is");
}

TEST(ToolFields, MessagesOfToolsAndTheirCallers) {
  for (const std::string good :
       {R"({"role": "tool", "tool_call_id": "1", "content": "42"})",
        R"({"role": "tool", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]})",
        R"({"role": "assistant", "tool_calls": []})",
        R"({"role": "assistant", "content": "x", "tool_calls": null})",
        R"({"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}]})"}) {
    const auto request = with_message(good);
    EXPECT_TRUE(request) << good << ": " << request.error().message;
  }
  const auto expect = [](const std::string& text, const std::string& message) {
    const auto request = with_message(text);
    ASSERT_FALSE(request) << text;
    EXPECT_EQ(request.error().param, "messages");
    EXPECT_EQ(request.error().message, message);
  };
  expect(R"({"role": "tool", "tool_call_id": 5, "content": "42"})",
         "messages[1]: 'tool_call_id' is an integer, a string is required");
  expect(R"({"role": "tool", "tool_call_id": "1"})", "messages[1]: 'content' is missing");
  expect(R"({"role": "assistant", "tool_calls": {}})",
         "messages[1]: 'tool_calls' is an object, an array is required");
  expect(R"({"role": "user", "content": "x", "tool_calls": [{}]})",
         "messages[1]: only an assistant has 'tool_calls', the role is 'user'");
  expect(R"({"role": "assistant", "tool_calls": [6]})",
         "messages[1].tool_calls[0] is an integer, an object is required");
  expect(R"({"role": "assistant", "tool_calls": [{"function": 5}]})",
         "messages[1].tool_calls[0]: 'function' is an integer, an object is required");
  expect(R"({"role": "assistant", "tool_calls": [{"function": {}}]})",
         "messages[1].tool_calls[0]: 'name' is missing");
  expect(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": []}}]})",
         "messages[1].tool_calls[0]: 'arguments' is an array, JSON in a string is required");
}

// What would be lost without a word: templates know none of these.
TEST(ToolFields, OlderFormsOfAHistoryBecomeWhatTemplatesKnow) {
  const auto seen = [](const std::string& messages) -> json::value {
    const auto request = parse_chat_request(R"({"messages": [)" + messages + "]}");
    EXPECT_TRUE(request) << request.error().message;
    return template_messages(*request, [](std::string_view text) { return std::string(text); });
  };
  EXPECT_EQ(seen(R"({"role": "assistant", "content": null, "refusal": "No."})").at(0).at("content"),
            "No.");
  EXPECT_EQ(seen(R"({"role": "tool", "content": null})").at(0).at("content"), "");
  const json::value calls = seen(
      R"({"role": "user", "content": "q"},
         {"role": "assistant", "content": null,
          "function_call": {"name": "f", "arguments": "{\"a\": 1}"}},
         {"role": "function", "name": "f", "content": "r"})");
  EXPECT_EQ(calls.at(1),
            json::parse(R"({"role": "assistant", "content": [], "tool_calls": [{"id": "call00001",
                "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]})")
                .value());
  EXPECT_EQ(calls.at(2), json::parse(R"({"role": "tool", "content": "r", "name": "f",
                                         "tool_call_id": "call00001"})")
                             .value());
  // Beside newer calls the older is nobody's; one that is no call is named.
  EXPECT_EQ(seen(R"({"role": "assistant", "content": "a", "function_call": {"name": "g"},
                     "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]})")
                .at(0)
                .at("tool_calls")
                .as_array()
                .size(),
            1U);
  const auto wrong = parse_chat_request(
      R"({"messages": [{"role": "assistant", "content": "a", "function_call": "f"}]})");
  EXPECT_EQ(wrong.error().message,
            "messages[0].tool_calls[0]: 'function' is a string, an object is required");
}

}  // namespace
}  // namespace saccade::api
