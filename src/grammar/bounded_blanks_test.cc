// White space between JSON's tokens is bounded where the grammar says so, and nowhere else.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "grammar/automaton/matcher.h"
#include "grammar/frontends/regex_parser.h"
#include "grammar/schema/json_schema.h"

namespace saccade::grammar {
namespace {

// All bytes, runs of white space, and an end token.
std::shared_ptr<const Vocabulary> blanks_vocabulary() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\n\n", "\n\n\n\n", "  ", "        ", " \"", "\n  \"", "true"})
    pieces.emplace_back(piece);
  const auto end = static_cast<TokenId>(pieces.size());
  pieces.emplace_back("<end>");
  return std::make_shared<Vocabulary>(pieces, std::vector<TokenId>{end});
}

std::shared_ptr<const CompiledGrammar> of_schema(const char* schema, Whitespace whitespace) {
  auto grammar = json_schema_grammar(*json::parse(schema), {.whitespace = whitespace});
  EXPECT_TRUE(grammar) << grammar.error().message;
  return CompiledGrammar::create(*std::move(grammar), blanks_vocabulary()).value();
}

bool may_come(Matcher& matcher, TokenId token) {
  std::vector<std::uint32_t> words(matcher.grammar().vocabulary().words());
  matcher.fill_mask(words);
  return (words[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

// A model that writes white space wherever it may, and whatever else else; the text when it ends.
std::string written_by_a_lover_of_blanks(const std::shared_ptr<const CompiledGrammar>& grammar,
                                         std::uint64_t seed, std::size_t most) {
  Matcher matcher(grammar);
  const Vocabulary& tokens = grammar->vocabulary();
  std::vector<std::uint32_t> words(tokens.words());
  Rng rng(seed);
  std::string text;
  while (text.size() < most && matcher.fill_mask(words)) {
    std::vector<TokenId> blanks;
    std::vector<TokenId> others;
    for (TokenId token = 0; token < tokens.size(); ++token) {
      if ((words[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) == 0) continue;
      const bool blank = !tokens.is_end(token) &&
                         tokens.piece(token).find_first_not_of(" \t\r\n") == std::string_view::npos;
      (blank ? blanks : others).push_back(token);
    }
    const std::vector<TokenId>& from = blanks.empty() ? others : blanks;
    const TokenId token = from[rng() % from.size()];
    EXPECT_TRUE(matcher.accept(token));
    if (tokens.is_end(token)) return text;
    text += tokens.piece(token);
  }
  return "no end: " + text;
}

TEST(BoundedBlanks, EvenALoverOfBlanksComesToAnEnd) {
  constexpr const char* kSchema =
      R"({"type": "object", "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 0},
          "b": {"enum": ["x", null, true]}}, "required": ["a", "b"], "additionalProperties": false})";
  const auto bounded = of_schema(kSchema, Whitespace::kBounded);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = written_by_a_lover_of_blanks(bounded, seed, 1000);
    const auto value = json::parse(text);
    ASSERT_TRUE(value) << text;
    EXPECT_TRUE(value->as_object().contains("b"));
  }
  const auto any = of_schema(kSchema, Whitespace::kAny);
  EXPECT_TRUE(written_by_a_lover_of_blanks(any, 1, 1000).starts_with("no end"));
}

TEST(BoundedBlanks, WhatPeopleWriteMayBeWritten) {
  constexpr const char* kSchema = R"({"type": "object"})";
  for (const std::string text :
       {"{\n    \"a\": {\n        \"b\": [\n            1,\n\n            2\n        ]\n    }\n}",
        "{\"a\":1}",
        "{ \"a\" : \"          many blanks \\n\\n\\n in a text                      \" }",
        "{\r\n\t\"a\": 1\r\n}"}) {
    Matcher matcher(of_schema(kSchema, Whitespace::kBounded));
    for (const char c : text) {
      const auto token = static_cast<TokenId>(static_cast<unsigned char>(c));
      ASSERT_TRUE(may_come(matcher, token)) << text << " at '" << c << "'";
      ASSERT_TRUE(matcher.accept(token));
    }
    EXPECT_TRUE(matcher.can_end());
  }
}

TEST(BoundedBlanks, ATakenBackTokenIsNotCounted) {
  Matcher matcher(of_schema(R"({"type": "object"})", Whitespace::kBounded));
  ASSERT_TRUE(matcher.accept('{'));
  ASSERT_TRUE(matcher.accept('\n') && matcher.accept('\n'));
  EXPECT_FALSE(may_come(matcher, '\n'));
  ASSERT_TRUE(matcher.rollback(1));
  EXPECT_TRUE(may_come(matcher, '\n'));
}

TEST(BoundedBlanks, OtherGrammarsHaveAsManyAsTheySay) {
  Grammar grammar;
  const auto root = parse_regex(grammar, R"(\s+x)");
  ASSERT_TRUE(root);
  grammar.set_root(grammar.add_rule("root", *root));
  Matcher matcher(CompiledGrammar::create(std::move(grammar), blanks_vocabulary()).value());
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(may_come(matcher, '\n'));
    ASSERT_TRUE(matcher.accept('\n'));
  }
}

}  // namespace
}  // namespace saccade::grammar
