// Every format, at every way of cutting the text.
#include "tools/answer_parser.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tools/answer_parser_testing.h"

namespace saccade::tools {
namespace {

std::shared_ptr<const json::array> tools_of(std::string_view text) {
  return std::make_shared<json::array>(json::parse(text)->as_array());
}

// f takes anything, get_weather a city, days and more.
std::shared_ptr<const json::array> tools() {
  return tools_of(R"([
    {"type": "function", "function": {"name": "f"}},
    {"type": "function", "function": {"name": "g", "parameters": {"type": "object",
      "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"},
      "o": {"type": "object"}, "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}}}])");
}

ParserForm form_of(std::string_view calls, std::string_view reasoning = "") {
  return parser_form(calls, reasoning, tools());
}

void expect(const Case& one) { expect_read(one, tools()); }

TEST(ToolCalls, Hermes) {
  for (const Case& one : {
           Case{"hermes", "Plain text.\n", "Plain text.\n|"},
           Case{"hermes", "", "|"},
           Case{"hermes", " \n ", " \n |"},
           Case{"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
                "||f({\"a\": 1})"},
           Case{"hermes",
                "Let me see.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"ä\": "
                "\"</tool_call>\"}}\n"
                "</tool_call>\n<tool_call>\n{\"arguments\": {\"b\": [1, {}]}, \"name\": \"g\"}\n"
                "</tool_call>\n",
                "Let me see.||f({\"ä\": \"</tool_call>\"})|g({\"b\": [1, {}]})"},
           // No end marker; nothing for arguments; arguments as text; other members.
           Case{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}", "||f({})"},
           Case{"hermes", "<tool_call>{\"name\":\"f\"}</tool_call>", "||f({})"},
           Case{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":null}</tool_call>", "||f({})"},
           Case{"hermes", R"(<tool_call>{"name":"f","arguments":"{\"a\": \"\\n\"}"}</tool_call>)",
                R"(||f({"a": "\n"}))"},
           Case{"hermes",
                R"(<tool_call>{"id":-1.5e3,"name":"f","type":{"x":[]},"arguments":{}}</tool_call>)",
                "||f({})"},
           // A name that nobody gave is the client's to refuse.
           Case{"hermes", R"(<tool_call>{"name":"\u0068","arguments":{}}</tool_call>)", "||h({})"},
           Case{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> Done. ",
                "Done. ||f({})"},
       })
    expect(one);
}

// What stood apart around a call still does; a call at either end leaves no blanks.
TEST(ToolCalls, ContentsKeepTheirDistance) {
  const std::string call = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
  const auto result = [](const std::string& text, std::string_view content, int calls) {
    std::string expected = std::string(content) + "|";
    for (int i = 0; i < calls; ++i) expected += "|f({})";
    expect({"hermes", text, expected});
  };
  result("Box: " + call + "\nPrice: " + call + " \nDone.\n", "Box: Price: Done.\n", 2);
  result("A.\n\n" + call + "\n" + call + "\nB", "A.\n\nB", 2);
  result("A" + call + "\nB", "A\nB", 1);
  result("A" + call + " " + call + "B", "A B", 2);
  result("A" + call + "B", "AB", 1);
  result(" \n" + call + "\nB", "B", 1);
  result("A \n" + call + "\n", "A", 1);
  result("A <tool_call>no</tool_call> " + call + " B", "A <tool_call>no</tool_call> B", 1);
}

TEST(ToolCalls, WhatIsNoCallIsContent) {
  for (const std::string_view text : {
           "a <tool_ca",
           "a < b <tool_call",
           "<tool_call>",
           " <tool_call> \n",
           "<tool_call>no</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\"",
           "<tool_call>{\"name\": f}</tool_call>",
           "<tool_call>{}</tool_call>",
           "<tool_call>{\"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>",
           "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
           "<tool_call>[{\"name\": \"f\", \"arguments\": {}}]</tool_call>",
       }) {
    expect({"hermes", text, std::string(text) + "|"});
  }
}

TEST(ToolCalls, WhatBreaksInItsArgumentsEndsThere) {
  expect({"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\": 1,}}</tool_call>",
          "}}</tool_call>||f({\"a\": 1,)"});
  expect({"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\": \"cut of",
          "||f({\"a\": \"cut of)"});
  expect(
      {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\": 1}, x", ", x||f({\"a\": 1})"});
  // One that breaks does not take the next with it.
  expect({"hermes", "<tool_call>no <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
          "<tool_call>no||f({})"});
}

TEST(ToolCalls, QwenXml) {
  expect(
      {"qwen3_coder",
       "I will.\n<tool_call>\n<function=g>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n2\n"
       "</parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=o>\n{\"x\": "
       "[1]}\n</parameter>\n"
       "<parameter=any>\nNone\n</parameter>\n</function>\n</tool_call>",
       "I will.||g({\"s\": \"12\", \"n\": 2, \"b\": true, \"o\": {\"x\": [1]}, \"any\": null})"});
  expect(
      {"qwen3_coder",
       "<function=g>\n<parameter=s>\na\n\"b\" < </param\n</parameter>\n</function>\n</tool_call>",
       "||g({\"s\": \"a\\n\\\"b\\\" < </param\"})"});
  expect({"qwen3_coder",
          "<tool_call><function=f></function></tool_call>\n<tool_call><function=g>"
          "<parameter=n>many</parameter></function></tool_call>",
          "||f({})|g({\"n\": \"many\"})"});
  expect({"qwen3_coder", "<tool_call>{\"name\": \"f\"}</tool_call>",
          "<tool_call>{\"name\": \"f\"}</tool_call>|"});
  expect(
      {"qwen3_coder", "<tool_call><function=f><parameter=a>1</parameter>x", "x||f({\"a\": \"1\")"});
}

// Qwen3-Coder forgets to close parameters.
TEST(ToolCalls, QwenXmlUnclosedParameters) {
  const auto call = [](std::string_view parameters) {
    return "<tool_call>\n<function=g>\n" + std::string(parameters) + "</function>\n</tool_call>";
  };
  const auto read = [&](std::string_view parameters, std::string_view arguments) {
    expect({"qwen3_coder", call(parameters) + "\nSo.", "So.||g(" + std::string(arguments) + ")"});
  };
  read("<parameter=s>\nDallas\n<parameter=n>\n2\n</parameter>\n", R"({"s": "Dallas", "n": 2})");
  read("<parameter=s>\nDallas\n<parameter=n>\n2\n<parameter=b>\ntrue\n</parameter>\n",
       R"({"s": "Dallas", "n": 2, "b": true})");
  read("<parameter=n>\n2\n</parameter>\n<parameter=s>\nDallas\n", R"({"n": 2, "s": "Dallas"})");
  read("<parameter=s>\na\n<parameter=n>\n2\n", R"({"s": "a", "n": 2})");
  read("<parameter=s>", R"({"s": ""})");
  // What is no parameter of the function, or begins no line, is text; so is the end of a function.
  read("<parameter=s>\nx\n<parameter=other>\ny\n</parameter>\n",
       R"({"s": "x\n<parameter=other>\ny"})");
  read("<parameter=s>\nsee <parameter=n> y\n</parameter>\n", R"({"s": "see <parameter=n> y"})");
  read("<parameter=s>\n<f>\n</function>\n</parameter>\n", R"({"s": "<f>\n</function>"})");
  // Nobody says what the function has: any name will do.
  expect({"qwen3_coder",
          "<tool_call><function=f>\n<parameter=a>\n1\n<parameter=b>\n2\n</parameter></function>"
          "</tool_call>",
          R"(||f({"a": "1", "b": "2"}))"});
  expect({"seed_oss",
          "<seed:tool_call>\n<function=g>\n<parameter=s>\nx\n</function>\n</seed:tool_call>",
          R"(||g({"s": "x"}))"});
}

TEST(ToolCalls, LlamaJson) {
  expect({"llama3_json", R"({"name": "f", "parameters": {"a": 1}})", R"(||f({"a": 1}))"});
  expect({"llama3_json",
          R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"n": 1}})",
          R"(||f({})|g({"n": 1}))"});
  expect({"llama3_json", " {\"name\": \"f\", \"parameters\": {}}\n", "||f({})"});
  // An answer in JSON is no call: the name must be a tool's, and there must be arguments.
  for (const std::string_view text :
       {R"({"name": "Alice", "parameters": {"age": 3}})", R"({"name": "f", "age": 3})",
        R"( {"a": 1} )", "{", "{\"name\": \"f\", ", R"(Take {"name": "f", "parameters": {}})",
        "<|python_tag|>brave_search.call(query=\"x\")"})
    expect({"llama3_json", text, std::string(text) + "|"});
}

TEST(ToolCalls, Pythonic) {
  expect(
      {"pythonic",
       R"([f(a=1, b="x, ')]"), g(s='it\'s', n=-2.5, b=False, o={'k': [None, (1, 2)]})])",
       R"(||f({"a": 1, "b": "x, ')]"})|g({"s": "it's", "n": -2.5, "b": false, "o": {"k": [null, [1, 2]]}}))"});
  expect({"pythonic", "[f()]", "||f({})"});
  expect({"pythonic", "[f(a='''x'y''', b=\"\", c='\\u00e4\\n\\q')]",
          R"(||f({"a": "x'y", "b": "", "c": "ä\n\\q"}))"});
  for (const std::string_view text : {"[1, 2]", "[f(1)]", "[f(a=b)]", "[h(a=1)]", "[f(a=1, a=2)]",
                                      "[f(a=1]", "[f(a=1x)]", "[]", "[f(a=\"x", "See [f(a=1)]"})
    expect({"pythonic", text, std::string(text) + "|"});
  expect({"pythonic", "[f(a=1), h(", ", h(||f({\"a\": 1})"});
  // All of Python's literals that JSON has a word for.
  for (const auto& [literal, value] : std::vector<std::pair<std::string, std::string>>{
           {"{'urgent', \"bug\"}", R"(["urgent", "bug"])"},
           {"{1}", "[1]"},
           {"{}", "{}"},
           {"()", "[]"},
           {"(1,)", "[1]"},
           {"('a')", R"("a")"},
           {"((1), (2, 3))", "[1, [2, 3]]"},
           {"{1: 'a', None: {True: 2}}", R"({"1": "a", "null": {"true": 2}})"},
           {"'a' \"b\"\n 'c'", R"("abc")"},
           {"u'x'", R"("x")"},
           {"07", "7"},
           {"-007.50", "-7.50"},
           {"+1", "1"},
           {"1_000", "1000"},
           {".5", "0.5"},
           {"2.", "2.0"},
           {"2.e3", "2.0e3"},
           {"0x1F", "31"},
           {"0", "0"},
       }) {
    const std::string text = "[f(a=" + literal + ")]";
    expect({"pythonic", text, "||f({\"a\": " + value + "})"});
  }
  expect({"pythonic", R"([f(a=r'a\d\'b', c=R"\n")])", R"(||f({"a": "a\\d\\'b", "c": "\\n"}))"});
  for (const std::string_view literal :
       {"{[1]: 2}", "{'a': 1, 2}", "{1, 'a': 2}", "0x", "0xg", "1__0", "_1", "1_", "--1", "1.2.3",
        ".", "{'a' 'b'", "rx"}) {
    const std::string text = "[f(a=" + std::string(literal) + ")]";
    expect({"pythonic", text, text + "|"});
  }
  expect({"llama4_pythonic", "<|python_start|>[h(a=1)]<|python_end|>", "||h({\"a\": 1})"});
  expect({"lfm2", "<|tool_call_start|>[h(a='1')]<|tool_call_end|>So.", "So.||h({\"a\": \"1\"})"});
}

TEST(ToolCalls, OtherFormats) {
  for (
      const Case& one : {
          Case{"internlm",
               "I look.<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}"
               "<|action_end|>",
               "I look.||f({\"a\": 1})"},
          Case{"internlm",
               "<|action_start|> <|plugin|>{\"name\": \"f\", \"arguments\": {}}<|action_end|>\n",
               "||f({})"},
          Case{
              "phi4_mini_json",
              R"(functools[{"name": "f", "arguments": {"a": "]"}}, {"name": "g", "arguments": {}}])",
              R"(||f({"a": "]"})|g({}))"},
          Case{"phi4_mini_json", R"(<|tool_call|>[{"name": "f", "parameters": {}}]<|/tool_call|>)",
               "||f({})"},
          Case{"phi4_mini_json", "the functools module", "the functools module|"},
          Case{"granite", R"(<|tool_call|>[{"name": "f", "arguments": {}}])", "||f({})"},
          Case{"granite", R"(<tool_call> [{"arguments": {}, "name": "f"}])", "||f({})"},
          Case{"mistral",
               R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}])",
               R"(||f({"a": 1}))"},
          Case{"mistral",
               R"([TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}])",
               "||f({})|g({})"},
          Case{"mistral",
               R"(Wait.[TOOL_CALLS]f[ARGS]{"a": {}}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{"n": 2})",
               R"(Wait.||f({"a": {}})|g({"n": 2}))"},
          Case{"mistral", "[TOOL_CALLS]f{\"a\": 1}", "||f({\"a\": 1})"},
          Case{"mistral", "[TOOL_CALLS]no call", "[TOOL_CALLS]no call|"},
          Case{"mistral", "[TOOL_CALLS][]", "[TOOL_CALLS][]|"},
          Case{"gemma3", "So:\n```tool_code\nprint(f(a=1))\ng(s=\"```\")\n```\n",
               "So:||f({\"a\": 1})|g({\"s\": \"```\"})"},
          Case{"gemma3", "```tool_code\n{\"name\": \"f\", \"parameters\": {}}\n```", "||f({})"},
          Case{"gemma3", "```tool_code\n[{\"name\": \"f\", \"parameters\": {}}]\n```", "||f({})"},
          Case{"gemma3", "```tool_code\n[f(a=1)]\n```", "||f({\"a\": 1})"},
          Case{"gemma3", "[f(a=1)]", "||f({\"a\": 1})"},
          Case{"gemma3", "```tool_code\nx = 1\n```", "```tool_code\nx = 1\n```|"},
          Case{"seed_oss",
               "<seed:tool_call>\n<function=g>\n<parameter=s>x</parameter>\n</function>\n</"
               "seed:tool_call>",
               "||g({\"s\": \"x\"})"},
          Case{"jamba", R"(<tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>)", "||f({})"},
          Case{"minimax",
               "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", "
               "\"arguments\": {}}\n"
               "</tool_calls>",
               "||f({})|g({})"},
          Case{"nemotron_json", R"(<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>)",
               "||f({})"},
      })
    expect(one);
}

TEST(ToolCalls, StrictJsonAlone) {
  const auto taken = [](std::string_view arguments) {
    const ParserForm form = form_of("hermes");
    const std::string text =
        "<tool_call>{\"name\":\"f\",\"arguments\":" + std::string(arguments) + "}</tool_call>";
    expect_cuts_agree(form, text);
    const ParsedAnswer answer = parse_answer(form, text);
    return answer.content.empty() && answer.calls.size() == 1 &&
           answer.calls[0].arguments == arguments;
  };
  for (
      const std::string_view good :
      {R"({"a":-0.5e-7,"b":[0,1.0,10E+2,true,false,null],"c":{"d":"\"\\\/\b\f\n\r\t\u00e4"},"e":[]})",
       "{ \"a\" :\t1 ,\n\"b\" : [ ] }", "{\"\":\"\xc3\xa4\"}"})
    EXPECT_TRUE(taken(good)) << good;
  for (const std::string_view bad :
       {"{\"a\":01}", "{\"a\":-}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":1e}", "{\"a\":+1}",
        "{\"a\":tru}", "{\"a\":'x'}", "{a:1}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\n\"}", "{\"a\":1,}", "{\"a\":[1,]}", "{\"a\":[1}", "{\"a\" 1}", "{\"a\":}",
        "{,}"}) {
    EXPECT_FALSE(taken(bad)) << bad;
    EXPECT_FALSE(json::parse(bad)) << bad;
  }
}

TEST(ToolCalls, Limits) {
  ParserForm form = form_of("hermes");
  form.limits = {.calls = 2, .argument_bytes = 8, .name_bytes = 4, .depth = 2};
  const auto call = [](std::string_view name, std::string_view arguments) {
    return "<tool_call>{\"name\":\"" + std::string(name) +
           "\",\"arguments\":" + std::string(arguments) + "}</tool_call>";
  };
  const auto result = [&](const std::string& text) {
    expect_cuts_agree(form, text);
    return shown(parse_answer(form, text));
  };
  EXPECT_EQ(result(call("four", "{\"a\":12}")), "||four({\"a\":12})");
  EXPECT_EQ(result(call("four", "{\"a\":123}")), "}}</tool_call>||four({\"a\":123)");
  EXPECT_EQ(result(call("fives", "{}")), call("fives", "{}") + "|");
  EXPECT_EQ(result(call("f", "{\"\":[]}")), "||f({\"\":[]})");
  EXPECT_EQ(result(call("f", "{\"\":[{}]}")), "{}]}}</tool_call>||f({\"\":[)");
  EXPECT_EQ(result(call("f", "{}") + call("f", "{}") + call("g", "{}")),
            call("g", "{}") + "||f({})|f({})");
}

TEST(Reasoning, IsSplitOff) {
  const auto result = [](std::string_view name, bool inside, std::string_view text) {
    ParserForm form = form_of("hermes", name);
    form.in_reasoning = inside;
    expect_cuts_agree(form, text);
    return shown(parse_answer(form, text));
  };
  EXPECT_EQ(result("qwen3", false, "<think>\nI see. \n\nYes\n</think>\n\nHello\n"),
            "Hello\n|I see. \n\nYes");
  EXPECT_EQ(result("qwen3", false, "Hello"), "Hello|");
  EXPECT_EQ(result("qwen3", false, " a <think> b"), " a <think> b|");
  EXPECT_EQ(result("qwen3", true, "I see.</think>Hello"), "Hello|I see.");
  EXPECT_EQ(result("qwen3", true, "I see.</thi"), "|I see.</thi");
  EXPECT_EQ(result("qwen3", false, "<thi"), "<thi|");
  EXPECT_EQ(result("qwen3", true, "<thi"), "|<thi");
  EXPECT_EQ(result("qwen3", false, "<think>\n\n</think>\n\n"), "|");
  EXPECT_EQ(result("deepseek_r1", false, "I see.</think>\nHello"), "Hello|I see.");
  EXPECT_EQ(result("deepseek_r1", false, "I see."), "|I see.");
  EXPECT_EQ(result("mistral", false, "[THINK]a[/THINK]b"), "b|a");
  // A call in thoughts is a thought.
  const std::string call = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
  EXPECT_EQ(result("qwen3", true, call + "</think>\n\n" + call), "|" + call + "|f({})");
}

TEST(Formats, AreNamedOrRefusedWithTheList) {
  EXPECT_EQ(tool_call_format("nobody").error().message.substr(0, 60),
            "--tool-call-parser 'nobody' is not known; hermes, qwen3_code");
  EXPECT_EQ(
      reasoning_format("x").error().message,
      "--reasoning-parser 'x' is not known; qwen3, deepseek_r1, glm45, mistral, seed_oss are");
  EXPECT_TRUE(opens_reasoning(*reasoning_format("qwen3").value(), "assistant\n<think>\n"));
  EXPECT_FALSE(opens_reasoning(*reasoning_format("qwen3").value(), "<think>\n\n</think>\n\n"));
}

TEST(Formats, IdsDifferAndRepeat) {
  const ToolCallFormat& mistral = *tool_call_format("mistral").value();
  const ToolCallFormat& hermes = *tool_call_format("hermes").value();
  EXPECT_EQ(call_id(mistral, "x", 0).size(), 9U);
  EXPECT_EQ(call_id(hermes, "x", 0).size(), 29U);
  EXPECT_EQ(call_id(hermes, "x", 1), call_id(hermes, "x", 1));
  EXPECT_NE(call_id(hermes, "x", 0), call_id(hermes, "x", 1));
  EXPECT_NE(call_id(hermes, "x", 0), call_id(hermes, "y", 0));
}

}  // namespace
}  // namespace saccade::tools
