// The kinds of texts that vLLM's unit tests have for five ways of writing calls, in words of our
// own.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tools/answer_parser_testing.h"

namespace saccade::tools {
namespace {

// forecast takes a place, days and more; stop nothing.
std::shared_ptr<const json::array> tools_of_kinds() {
  return std::make_shared<json::array>(json::parse(R"([
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "forecast", "parameters": {"type": "object",
      "properties": {"place": {"type": "string"}, "days": {"type": "integer"},
        "step": {"type": "number"}, "wind": {"type": "boolean"}, "at": {"type": "null"},
        "hours": {"type": "array"}, "grid": {"type": "object"}}}}}])")
                                           ->as_array());
}

void expect_calls(std::string_view format, const std::string& text, const std::string& expected) {
  expect_read({format, text, expected}, tools_of_kinds());
}

// Calls between tags, as Qwen3 and Seed-OSS write them.
class XmlCalls : public testing::TestWithParam<std::pair<std::string_view, std::string>> {
 protected:
  std::string call(const std::string& inside) const {
    const std::string& tag = GetParam().second;
    return "<" + tag + ">\n" + inside + "\n</" + tag + ">";
  }
  std::string forecast(const std::string& parameters) const {
    return call("<function=forecast>\n" + parameters + "\n</function>");
  }
  void reads(const std::string& text, const std::string& expected) const {
    expect_calls(GetParam().first, text, expected);
  }
};

TEST_P(XmlCalls, AreTold) {
  reads("It rains in Bergen, always.", "It rains in Bergen, always.|");
  reads(forecast("<parameter=place>Bergen, Norway</parameter>"),
        R"(||forecast({"place": "Bergen, Norway"}))");
  reads(forecast("<parameter=place>\nBergen\n</parameter>\n<parameter=days>\n3\n</parameter>"),
        R"(||forecast({"place": "Bergen", "days": 3}))");
  reads(forecast("<parameter=place>Oslo</parameter>") + call("<function=stop>\n</function>"),
        R"(||forecast({"place": "Oslo"})|stop({}))");
  reads(forecast("<parameter=place>Oslo</parameter>") + "\n" +
            forecast("<parameter=place>Bodø</parameter>"),
        R"(||forecast({"place": "Oslo"})|forecast({"place": "Bodø"}))");
  reads("A look outside.\n\n" + forecast("<parameter=place>Oslo</parameter>") + "\n\nOne moment.",
        "A look outside.\n\nOne moment.||forecast({\"place\": \"Oslo\"})");
  reads("<function=forecast>\n<parameter=place>\nOslo\n</parameter>\n</function>",
        R"(||forecast({"place": "Oslo"}))");
}

TEST_P(XmlCalls, ValuesHaveTheirTypes) {
  reads(forecast("<parameter=days>7</parameter>\n<parameter=step>0.25</parameter>\n"
                 "<parameter=wind>true</parameter>\n<parameter=at>null</parameter>\n"
                 "<parameter=hours>[6, \"noon\", true, null]</parameter>\n"
                 "<parameter=grid>{\"rows\": 2,\n \"columns\": 3}</parameter>"),
        "||forecast({\"days\": 7, \"step\": 0.25, \"wind\": true, \"at\": null, \"hours\": [6, "
        "\"noon\", true, null], \"grid\": {\"rows\": 2,\n \"columns\": 3}})");
  // As Python writes them, and as nobody does.
  reads(forecast("<parameter=grid>{'rows': 2}</parameter>\n<parameter=wind>False</parameter>"),
        R"(||forecast({"grid": {"rows": 2}, "wind": false}))");
  reads(forecast("<parameter=days>a few</parameter>"), R"(||forecast({"days": "a few"}))");
  // Nobody says of which type: a text.
  reads(call("<function=stop>\n<parameter=in>5</parameter>\n</function>"),
        R"(||stop({"in": "5"}))");
}

TEST_P(XmlCalls, TextsAreEscaped) {
  reads(forecast("<parameter=place>the \"Old\" town</parameter>"),
        R"(||forecast({"place": "the \"Old\" town"}))");
  reads(forecast("<parameter=place>D:\\maps\\oslo.txt</parameter>"),
        R"(||forecast({"place": "D:\\maps\\oslo.txt"}))");
  reads(forecast("<parameter=place>one\ntwo\tthree</parameter>"),
        R"(||forecast({"place": "one\ntwo\tthree"}))");
  reads(forecast("<parameter=place>a < b && c > d &amp; e</parameter>"),
        R"(||forecast({"place": "a < b && c > d &amp; e"}))");
}

TEST_P(XmlCalls, WhatBreaksOffHarmsNothing) {
  const std::string begin = "<" + GetParam().second + ">";
  const std::string end = "</" + GetParam().second + ">";
  reads(begin + "<function=></function>" + end, begin + "<function=></function>" + end + "|");
  reads(begin + "no call" + end, begin + "no call" + end + "|");
  // Cut off behind its name, in a value, in a tag: never what a client takes for arguments.
  reads(begin + "<function=forecast>", "||forecast({)");
  reads(begin + "\n<function=forecast>\n<parameter=pla", "||forecast({)");
  reads(begin + "\n<function=forecast>\n<parameter=place>\nOs \"lo\"",
        R"x(||forecast({"place": "Os \"lo\"))x");
  reads(begin + "<function=forecast>\n<parameter=days>\n3\n</parameter>\n<parameter=place>\nOs",
        R"x(||forecast({"days": 3, "place": "Os))x");
  reads(begin + "<function=forecast>\n<parameter=days>\n3\n</parameter>\n</func",
        R"x(||forecast({"days": 3))x");
  reads(begin + "<function=forecast>no tag", "no tag||forecast({)");
}

INSTANTIATE_TEST_SUITE_P(Formats, XmlCalls,
                         testing::Values(std::pair("qwen3_xml", "tool_call"),
                                         std::pair("qwen3_coder", "tool_call"),
                                         std::pair("seed_oss", "seed:tool_call")),
                         [](const auto& one) { return std::string(one.param.first); });

// Thoughts are content where no parser of theirs is named; what they say of calls is no call.
TEST(SeedCalls, ThoughtsHaveNone) {
  const std::string call =
      "<seed:tool_call>\n<function=forecast>\n<parameter=place>Oslo</parameter>\n</function>\n"
      "</seed:tool_call>";
  const std::string budget =
      "<seed:cot_budget_reflect>20 tokens used, 44 are left.</seed:cot_budget_reflect>";
  expect_calls(
      "seed_oss", "<seed:think>Brief.\n" + budget + "\nNow.</seed:think>\n" + call,
      "<seed:think>Brief.\n" + budget + "\nNow.</seed:think>||forecast({\"place\": \"Oslo\"})");
  expect_calls(
      "seed_oss", "<seed:think>So: " + call + ", says the page.</seed:think>" + call,
      "<seed:think>So: " + call + ", says the page.</seed:think>||forecast({\"place\": \"Oslo\"})");
  expect_calls("seed_oss", "<seed:think>" + call, "<seed:think>" + call + "|");
}

TEST(MinimaxCalls, ThoughtsHaveNone) {
  const std::string call = "<tool_calls>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_calls>";
  expect_calls("minimax", "Well. <think>Perhaps " + call + "?</think>\n\nYes. " + call + "Done.",
               "Well. <think>Perhaps " + call + "?</think>\n\nYes. Done.||stop({})");
  expect_calls("minimax", "<think>" + call + "</think>" + call,
               "<think>" + call + "</think>||stop({})");
}

TEST(MinimaxCalls, AreLines) {
  const auto calls = [](const std::string& lines) {
    return "<tool_calls>\n" + lines + "\n</tool_calls>";
  };
  const std::string oslo = R"({"name": "forecast", "arguments": {"place": "Oslo"}})";
  const std::string stop = R"({"name": "stop", "arguments": {}})";
  expect_calls("minimax", "Dry, they say.", "Dry, they say.|");
  expect_calls("minimax", calls(oslo), R"(||forecast({"place": "Oslo"}))");
  expect_calls("minimax", calls(oslo + "\n" + stop), R"(||forecast({"place": "Oslo"})|stop({}))");
  expect_calls("minimax", "I look. " + calls(oslo), R"(I look.||forecast({"place": "Oslo"}))");
  expect_calls("minimax", "<tool_calls>\n" + oslo, R"(||forecast({"place": "Oslo"}))");
  expect_calls("minimax",
               calls("{\n  \"name\": \"forecast\",\n  \"arguments\": {\n    \"days\": 2\n  }\n}"),
               "||forecast({\n    \"days\": 2\n  })");
  expect_calls(
      "minimax",
      calls(R"({"name": "forecast", "arguments": {"grid": {"rows": {"from": 1}}, "days": 1}})"),
      R"(||forecast({"grid": {"rows": {"from": 1}}, "days": 1}))");
  // One that is no call does not take the next with it.
  expect_calls("minimax", calls(oslo + "\n{no JSON at all}\n" + stop),
               "{no JSON at all}||forecast({\"place\": \"Oslo\"})|stop({})");
  expect_calls(
      "minimax", calls(oslo + "\n{\"arguments\": {\"place\": \"Bergen\"}}\n" + stop),
      "{\"arguments\": {\"place\": \"Bergen\"}}||forecast({\"place\": \"Oslo\"})|stop({})");
  expect_calls("minimax", calls("nonsense\n" + stop), "<tool_calls>\nnonsense||stop({})");
  expect_calls("minimax", calls("{no}\n" + stop + "\n{neither}") + "\n{\"name\": \"stop\"}",
               "<tool_calls>\n{no}\n{neither}\n</tool_calls>\n{\"name\": \"stop\"}||stop({})");
  expect_calls("minimax", calls(""), calls("") + "|");
}

TEST(MistralCalls, AreListsOrNamed) {
  const std::string stop = R"({"name": "stop", "arguments": {}})";
  const std::string oslo = R"({"name": "forecast", "arguments": {"place": "Oslo", "days": 2}})";
  const std::string shown = R"(|forecast({"place": "Oslo", "days": 2}))";
  expect_calls("mistral", "[TOOL_CALLS][" + oslo + "]", "|" + shown);
  expect_calls("mistral", "[TOOL_CALLS]  [ " + oslo + " ]", "|" + shown);
  expect_calls("mistral", "[TOOL_CALLS] [" + oslo + ", " + stop + "]", "|" + shown + "|stop({})");
  expect_calls("mistral", R"([TOOL_CALLS] [{"arguments": {"name": "Oslo"}, "name": "stop"}])",
               R"(||stop({"name": "Oslo"}))");
  expect_calls("mistral", "Well[TOOL_CALLS] [" + stop + "]", "Well||stop({})");
  expect_calls("mistral", "[TOOL_CALLS] [" + stop + "]\nand more", "and more||stop({})");
  expect_calls("mistral", "[TOOL_CALLS] [" + oslo + "][TOOL_CALLS] [" + stop + "]",
               "|" + shown + "|stop({})");
  expect_calls("mistral", R"([TOOL_CALLS]forecast_at_3{"days": 1.5, "grid": {}})",
               R"(||forecast_at_3({"days": 1.5, "grid": {}}))");
  expect_calls("mistral", R"([TOOL_CALLS]forecast{"days": 1}[TOOL_CALLS]stop{})",
               R"(||forecast({"days": 1})|stop({}))");
  expect_calls("mistral", "a{b[TOOL_CALLS]forecast{\"place\": \"say \\\"{}\\\"\\n[x] {}\"}",
               "a{b||forecast({\"place\": \"say \\\"{}\\\"\\n[x] {}\"})");
  expect_calls("mistral", "a{b[TOOL_CALLS]forecast{\"place\": \"say \\\"{}\\\"\\n[x",
               "a{b||forecast({\"place\": \"say \\\"{}\\\"\\n[x)");
  expect_calls("mistral", "[TOOL_CALLS] none at all", "[TOOL_CALLS] none at all|");
  expect_calls("mistral", "[TOOL_CALLS]stop", "[TOOL_CALLS]stop|");
  // Words before the list.
  expect_calls("mistral", "[TOOL_CALLS]  my calls: [" + oslo + "] end", "end|" + shown);
}

TEST(NemotronCalls, AreListsBetweenTags) {
  const std::string oslo = R"({"name": "forecast", "arguments": {"place": "Oslo"}})";
  const std::string shown = R"(|forecast({"place": "Oslo"}))";
  const auto calls = [](const std::string& text) { return "<TOOLCALL>" + text + "</TOOLCALL>"; };
  expect_calls("nemotron_json", "None of it.", "None of it.|");
  expect_calls("nemotron_json", "I look." + calls("[" + oslo + "]"), "I look.|" + shown);
  expect_calls("nemotron_json", calls(oslo), "|" + shown);
  expect_calls("nemotron_json", calls("[" + oslo + ", " + oslo + "]"), "|" + shown + shown);
  expect_calls("nemotron_json", calls(R"([{"name": "forecast", "arguments": "{\"days\": 2}"}])"),
               R"(||forecast({"days": 2}))");
  expect_calls(
      "nemotron_json",
      calls(R"([{"name": "forecast", "arguments": {"hours": [{"name": "x", "on": true}]}}])"),
      R"(||forecast({"hours": [{"name": "x", "on": true}]}))");
  expect_calls("nemotron_json", "<think>\nRain?\n</think>\n" + calls("[" + oslo + "]"),
               "<think>\nRain?\n</think>|" + shown);
  expect_calls("nemotron_json", calls("[{\"name\": 5}]"), calls("[{\"name\": 5}]") + "|");
}

}  // namespace
}  // namespace saccade::tools
