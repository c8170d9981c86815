// Whatever the grammar of a demanded call lets a model write, the parser of the same format reads
// as such calls and nothing else.
#include "tools/required_calls.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>

#include "base/rng.h"
#include "grammar/automaton/matcher.h"
#include "grammar/frontends/required_structures.h"
#include "tools/answer_parser_testing.h"

namespace saccade {
namespace {

const char* const kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
    "properties": {"city": {"enum": ["Zürich", "a\"]}\n</tool_call>", ""]},
      "days": {"type": "integer", "minimum": 0, "maximum": 20},
      "where": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
    "required": ["city"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "search"}},
  {"type": "function", "function": {"name": "a.b-c:d/e_1", "parameters": {"type": "object",
    "properties": {"n": {"type": "null"}}, "required": ["n"], "additionalProperties": false}}}])";

std::shared_ptr<const json::array> tools_of_test() {
  return std::make_shared<const json::array>(json::parse(kTools)->as_array());
}

std::shared_ptr<const grammar::Vocabulary> vocabulary() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"{\"", "\": ", "name", "<tool", "}}", "]\n", "\",", "[{"})
    pieces.emplace_back(piece);
  const auto end = static_cast<TokenId>(pieces.size());
  pieces.emplace_back("<end>");
  return std::make_shared<const grammar::Vocabulary>(pieces, std::vector<TokenId>{end});
}

// A text of the grammar, by steps drawn evenly among those that may come.
std::string walk(const std::shared_ptr<const grammar::CompiledGrammar>& compiled, Rng& rng) {
  const grammar::Vocabulary& words = compiled->vocabulary();
  grammar::Matcher matcher(compiled);
  std::vector<std::uint32_t> mask(words.words());
  std::string text;
  while (!matcher.ended()) {
    EXPECT_TRUE(matcher.fill_mask(mask)) << text;
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < words.size(); ++token)
      if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0)
        allowed.push_back(token);
    if (allowed.empty()) break;
    const TokenId token = allowed[rng.below(allowed.size())];
    EXPECT_TRUE(matcher.accept(token));
    if (!matcher.ended()) text += words.piece(token);
  }
  return text;
}

void expect_calls(const tools::ToolCallFormat& format, std::string_view name, int most) {
  SCOPED_TRACE(std::string(format.name) + " " + std::string(name));
  const auto tools = tools_of_test();
  const auto wanted = tools::required_calls(format, *tools, name, most);
  ASSERT_TRUE(wanted) << wanted.error().message;
  auto grammar = grammar::required_structures_grammar(
      *json::parse(*wanted), {.whitespace = grammar::Whitespace::kCompact});
  ASSERT_TRUE(grammar) << grammar.error().message;
  const auto compiled = grammar::CompiledGrammar::create(*std::move(grammar), vocabulary());
  ASSERT_TRUE(compiled) << compiled.error().message;
  tools::ParserForm form;
  form.calls = &format;
  form.tools = tools;
  Rng rng(most);
  std::size_t longest = 0;
  for (int round = 0; round < 40; ++round) {
    const std::string text = walk(*compiled, rng);
    const tools::ParsedAnswer answer = tools::parse_answer(form, text);
    EXPECT_EQ(answer.content, "") << text;
    ASSERT_FALSE(answer.calls.empty()) << text;
    EXPECT_LE(answer.calls.size(), static_cast<std::size_t>(most)) << text;
    longest = std::max(longest, answer.calls.size());
    for (const tools::ParsedCall& call : answer.calls) {
      EXPECT_TRUE(name.empty() || call.name == name) << text;
      const auto arguments = json::parse(call.arguments);
      ASSERT_TRUE(arguments && arguments->is_object()) << text;
      EXPECT_EQ(call.name == "get_weather", arguments->as_object().contains("city")) << text;
      EXPECT_EQ(call.name == "search", call.arguments == "{}") << text;
    }
  }
  EXPECT_EQ(longest > 1, most > 1);
}

TEST(RequiredCalls, AreReadAsTheyMustBeWritten) {
  int held = 0;
  for (const tools::ToolCallFormat& format : tools::tool_call_formats()) {
    if (format.written.before_name.empty()) {
      const auto refused = tools::required_calls(format, *tools_of_test(), "", 1);
      ASSERT_FALSE(refused);
      EXPECT_NE(refused.error().message.find(format.name), std::string::npos);
      continue;
    }
    ++held;
    expect_calls(format, "", 5);
    expect_calls(format, "", 1);
    expect_calls(format, "a.b-c:d/e_1", 1);
  }
  EXPECT_EQ(held, 12);
}

TEST(RequiredCalls, ASchemaThatCannotBeHeldToIsNamed) {
  const auto refused = grammar::required_structures_grammar(*json::parse(
      R"({"structures": [{"begin": "f[", "schema": {"type": "nobody"}, "end": "]"}]
})"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.substr(0, 3), "f[:");
  for (const char* bad : {"[]", "{}", R"({"structures": []})", R"({"structures": [5]})",
                          R"({"structures": [{"begin": "", "end": ""}]})",
                          R"({"structures": [{"begin": "", "end": "", "schema": {}}], "most": 0})"})
    EXPECT_FALSE(grammar::required_structures_grammar(*json::parse(bad))) << bad;
}

}  // namespace
}  // namespace saccade
