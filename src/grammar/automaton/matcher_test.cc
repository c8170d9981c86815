#include "grammar/automaton/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "grammar/frontends/ebnf_parser.h"
#include "grammar/frontends/regex_parser.h"

namespace saccade::grammar {
namespace {

// All bytes as tokens, some longer ones, and an end token (the last).
std::shared_ptr<const Vocabulary> small_vocabulary() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"ab",  "abc",  "\"a",  "\",",    "\":", "\"}", "]]",   "[[",
                            "{\"", "true", "fal",  "se",     "10",  "0.5", "éa",   "\xC3",
                            "",    "aaaa", "a\"b", "\xA9\"", "ab",  "}}",  ", \"", "x\", \"y"}) {
    pieces.emplace_back(piece);
  }
  const auto end = static_cast<TokenId>(pieces.size());
  pieces.emplace_back("<end>");
  return std::make_shared<Vocabulary>(pieces, std::vector<TokenId>{end});
}

std::shared_ptr<const CompiledGrammar> compile_matcher(Grammar grammar) {
  auto compiled = CompiledGrammar::create(std::move(grammar), small_vocabulary());
  EXPECT_TRUE(compiled) << compiled.error().message;
  return compiled.value_or(nullptr);
}

std::shared_ptr<const CompiledGrammar> ebnf(std::string_view text) {
  auto grammar = parse_ebnf(text);
  EXPECT_TRUE(grammar) << grammar.error().message;
  return compile_matcher(*std::move(grammar));
}

std::shared_ptr<const CompiledGrammar> regex(std::string_view text, RegexOptions options = {}) {
  Grammar grammar;
  const auto root = parse_regex(grammar, text, options);
  EXPECT_TRUE(root) << text << ": " << root.error().message;
  grammar.set_root(grammar.add_rule("root", *root));
  return compile_matcher(std::move(grammar));
}

bool matches(const std::shared_ptr<const CompiledGrammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept_bytes(text) && matcher.can_end();
}

bool begins(const std::shared_ptr<const CompiledGrammar>& grammar, std::string_view text) {
  return Matcher(grammar).accept_bytes(text);
}

std::string ebnf_error(std::string_view text) {
  auto grammar = parse_ebnf(text);
  if (!grammar) return grammar.error().message;
  const auto compiled = CompiledGrammar::create(*std::move(grammar), small_vocabulary());
  return compiled ? "" : compiled.error().message;
}

std::string regex_error(std::string_view text) {
  Grammar grammar;
  const auto root = parse_regex(grammar, text);
  return root ? "" : root.error().message;
}

// The mask must say of each token what taking it says: the masks come from caches and shortcuts,
// accept() does not use them.
void expect_mask_agrees(Matcher& matcher, const std::string& so_far) {
  const Vocabulary& vocabulary = matcher.grammar().vocabulary();
  std::vector<std::uint32_t> words(vocabulary.words());
  matcher.fill_mask(words);
  for (TokenId token = 0; token < vocabulary.size(); ++token) {
    const bool allowed = (words[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
    const bool accepted = matcher.accept(token);
    if (accepted) {
      ASSERT_TRUE(matcher.rollback(1));
    }
    ASSERT_EQ(accepted, allowed) << "token " << token << " '" << vocabulary.piece(token)
                                 << "' after '" << so_far << "'";
  }
}

// Walks at random over what the masks allow; gives the text, which is complete or was cut.
std::string random_walk(const std::shared_ptr<const CompiledGrammar>& grammar, Rng& rng, int steps,
                        bool check, bool& complete) {
  Matcher matcher(grammar);
  const Vocabulary& vocabulary = grammar->vocabulary();
  std::string text;
  complete = false;
  for (int step = 0; step < steps; ++step) {
    if (check) expect_mask_agrees(matcher, text);
    std::vector<std::uint32_t> words(vocabulary.words());
    if (!matcher.fill_mask(words)) {
      ADD_FAILURE() << "nothing may follow '" << text << "'";
      return text;
    }
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < vocabulary.size(); ++token) {
      if (words[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) allowed.push_back(token);
    }
    // Ends when it may, half of the time.
    TokenId token = allowed[rng.below(allowed.size())];
    if (matcher.can_end() && rng.below(2) == 0) token = vocabulary.end_tokens()[0];
    EXPECT_TRUE(matcher.accept(token));
    if (matcher.ended()) {
      complete = true;
      return text;
    }
    text += vocabulary.piece(token);
  }
  return text;
}

TEST(Matcher, FollowsLiteralsClassesAndRepeats) {
  const auto grammar = ebnf("root ::= \"ab\" [0-9]{2,3} (\"x\" | 'y')* \"!\"?");
  EXPECT_TRUE(matches(grammar, "ab12"));
  EXPECT_TRUE(matches(grammar, "ab123xyx!"));
  EXPECT_FALSE(matches(grammar, "ab1"));
  EXPECT_FALSE(begins(grammar, "ab1234"));
  EXPECT_FALSE(begins(grammar, "b"));
}

TEST(Matcher, FollowsRecursionToAnyDepth) {
  const auto grammar = ebnf("root ::= \"[\" (root (\",\" root)*)? \"]\"");
  EXPECT_TRUE(matches(grammar, "[]"));
  EXPECT_TRUE(matches(grammar, "[[],[[]],[]]"));
  EXPECT_FALSE(matches(grammar, "[[]"));
  EXPECT_FALSE(begins(grammar, "[],"));
  EXPECT_TRUE(matches(grammar, std::string(500, '[') + std::string(500, ']')));
}

TEST(Matcher, RewritesDirectLeftRecursion) {
  const auto grammar = ebnf(
      "root ::= root \"+\" term | term\n"
      "term ::= term \"*\" [a-z] | [a-z] | \"(\" root \")\"");
  EXPECT_TRUE(matches(grammar, "a+b*c"));
  EXPECT_TRUE(matches(grammar, "(a+b)*c+d"));
  EXPECT_FALSE(begins(grammar, "+a"));
  EXPECT_FALSE(begins(grammar, "a++"));
}

TEST(Matcher, RightRecursionTakesNoStack) {
  const auto grammar = ebnf("root ::= [a-c] root | \".\"");
  Matcher matcher(grammar);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(matcher.accept_bytes("abc"));
  EXPECT_TRUE(matcher.accept_bytes("."));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_LT(matcher.bytes(), std::size_t{1} << 20);
}

TEST(Matcher, RefusesWhatCannotBeFollowed) {
  EXPECT_NE(ebnf_error("root ::= a \"x\"\na ::= root \"y\" | \"z\"").find("before any text"),
            std::string::npos);
  EXPECT_NE(ebnf_error("root ::= \"x\" root").find("no finite text"), std::string::npos);
  EXPECT_NE(ebnf_error("root ::= other").find("'other'"), std::string::npos);
  EXPECT_NE(ebnf_error("start ::= \"a\"").find("no rule 'root'"), std::string::npos);
  EXPECT_NE(ebnf_error("root ::= \"a\n").find("line 1"), std::string::npos);
  EXPECT_NE(ebnf_error("root ::= [a-\nb").find("line"), std::string::npos);
  EXPECT_NE(ebnf_error("root ::= \"a\"\nroot ::= \"b\"").find("defined again"), std::string::npos);
}

TEST(Matcher, HiddenRecursionThroughOptionalPartsIsRefusedOrFollowed) {
  EXPECT_NE(ebnf_error("root ::= [ ]* root \"x\" | \"y\""), "");
  const auto grammar = ebnf("root ::= (\"a\"? | \"b\")* \"c\"");
  EXPECT_TRUE(matches(grammar, "ababc"));
}

TEST(Matcher, CountsRepeatsThatAreNotWrittenOut) {
  const auto grammar = regex("x[a-z]{3,1000000000}y?");
  EXPECT_FALSE(matches(grammar, "xab"));
  EXPECT_TRUE(matches(grammar, "xabc"));
  EXPECT_TRUE(matches(grammar, "x" + std::string(100000, 'b') + "y"));
  const auto bounded = regex("(ab?){50,60}c");
  EXPECT_FALSE(begins(bounded, std::string(49, 'a') + "c"));
  EXPECT_TRUE(matches(bounded, std::string(50, 'a') + "c"));
  EXPECT_TRUE(matches(bounded, std::string(60, 'a') + "bc"));
  EXPECT_FALSE(begins(bounded, std::string(61, 'a')));
  const auto nullable = regex("(a*){40,50}");
  EXPECT_TRUE(matches(nullable, ""));
  EXPECT_TRUE(matches(nullable, std::string(100, 'a')));
  const auto nested = regex("((a{30}b){30}c){30}");
  std::string text;
  for (int i = 0; i < 30; ++i) {
    for (int j = 0; j < 30; ++j) text += std::string(30, 'a') + "b";
    text += "c";
  }
  EXPECT_TRUE(matches(nested, text));
  EXPECT_FALSE(begins(nested, text + "a"));
}

TEST(Matcher, RegexTakesTheUsualSyntax) {
  EXPECT_TRUE(matches(regex(R"(^\d{3}-[A-Fa-f\d]+\.(?:x|y)$)"), "123-aF9.y"));
  EXPECT_TRUE(matches(regex(R"([^a-c\]]+?)"), "xyz"));
  EXPECT_FALSE(begins(regex(R"([^a-c\]])"), "]"));
  EXPECT_TRUE(matches(regex("é|日本"), "日本"));
  EXPECT_TRUE(matches(regex(".{2}"), "日é"));
  EXPECT_FALSE(begins(regex("."), "\n"));
  EXPECT_TRUE(matches(regex(R"(\u{1F600}\x41\t)"),
                      "\xF0\x9F\x98\x80"
                      "A\t"));
  EXPECT_TRUE(matches(regex("a{,3}"), "a{,3}"));
  EXPECT_TRUE(matches(regex("(?<year>[12][0-9])(?P<m>0?)"), "190"));
  EXPECT_TRUE(matches(regex("a|^b$", {.search = true}), "xxaxx"));
  EXPECT_FALSE(begins(regex("^b$", {.search = true}), "bb"));
}

TEST(Matcher, RegexInJsonStringsIsEscaped) {
  const auto grammar = regex("[\"a\\n\\x01]+", {.json_string = true});
  EXPECT_TRUE(matches(grammar, R"(a\"\n\u0001)"));
  EXPECT_FALSE(begins(grammar, "\""));
  EXPECT_FALSE(begins(grammar, "\n"));
}

TEST(Matcher, RegexRefusesByName) {
  EXPECT_NE(regex_error(R"((a)\1)").find("back-reference"), std::string::npos);
  EXPECT_NE(regex_error("(?=a)").find("look-around"), std::string::npos);
  EXPECT_NE(regex_error("(?<!a)b").find("look-around"), std::string::npos);
  EXPECT_NE(regex_error(R"(\bfoo)").find("word boundary"), std::string::npos);
  EXPECT_NE(regex_error("(?i)a").find("inline flags"), std::string::npos);
  EXPECT_NE(regex_error("a^b").find("'^'"), std::string::npos);
  EXPECT_NE(regex_error("(a$|b)c").find("'$'"), std::string::npos);
  EXPECT_NE(regex_error(R"(\p{L})").find("\\p"), std::string::npos);
  EXPECT_NE(regex_error("a++").find("possessive"), std::string::npos);
  EXPECT_NE(regex_error("a{5,2}").find("{5,2}"), std::string::npos);
  EXPECT_NE(regex_error("a{99999999999}").find("count"), std::string::npos);
  EXPECT_NE(regex_error("(a"), "");
  EXPECT_NE(regex_error("[a"), "");
  EXPECT_NE(regex_error("*"), "");
  EXPECT_NE(regex_error(std::string(200, '(') + std::string(200, ')')).find("deep"),
            std::string::npos);
}

TEST(Matcher, MasksSayWhatAcceptSays) {
  const std::vector<std::shared_ptr<const CompiledGrammar>> grammars = {
      ebnf("root ::= \"{\" pair (\", \" pair)* \"}\"\n"
           "pair ::= string \":\" value\n"
           "string ::= \"\\\"\" [^\"\\\\]* \"\\\"\"\n"
           "value ::= string | root | \"[\" (value (\",\" value)*)? \"]\" | \"true\" | \"false\" | "
           "[0-9]+ (\".\" [0-9]+)?"),
      regex("\"[^\"]{0,7}\"(, \"[^\"]{2,40}\"){3,30}x"),
      regex("(a|aa|b\"?){20,25}\"b"),  // ambiguous laps
      regex("[^a]{30,}\"b"),
      regex(".*foo.*|(ab)+"),
      ebnf("root ::= root \"a\" | \"b\" | \"(\" root \")\" root"),
      ebnf("root ::= a \",\" | b \"]\"\na ::= \"[\" a \"]\" | \"x\"\nb ::= \"[\" b \"]\" | \"x\" "),
  };
  Rng rng(7);
  for (std::size_t i = 0; i < grammars.size(); ++i) {
    SCOPED_TRACE(i);
    for (int walk = 0; walk < 4; ++walk) {
      bool complete = false;
      const std::string text = random_walk(grammars[i], rng, 24, true, complete);
      if (HasFatalFailure()) return;
      EXPECT_TRUE(!complete || matches(grammars[i], text)) << text;
    }
  }
}

// Masks that are near a count's ends, where the cache must not take one count for another.
TEST(Matcher, MasksNearTheEndsOfCounts) {
  const auto grammar = regex("\"[^\"]{5,30}\"b");
  for (std::size_t length = 0; length <= 30; ++length) {
    Matcher matcher(grammar);
    const std::string text = "\"" + std::string(length, 'a');
    ASSERT_TRUE(matcher.accept_bytes(text));
    expect_mask_agrees(matcher, text);
    if (HasFatalFailure()) return;
  }
}

TEST(Matcher, EndTokenExactlyWhereTheTextMayEnd) {
  const auto grammar = regex("a+");
  Matcher matcher(grammar);
  const TokenId end = grammar->vocabulary().end_tokens()[0];
  EXPECT_FALSE(matcher.accept(end));
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(matcher.accept(end));
  EXPECT_TRUE(matcher.ended());
  std::vector<std::uint32_t> words(grammar->vocabulary().words());
  EXPECT_FALSE(matcher.fill_mask(words));
  EXPECT_FALSE(matcher.accept('a'));
}

TEST(Matcher, RollsBack) {
  const auto grammar = ebnf("root ::= \"[\" root \"]\" | \"x\"");
  Matcher matcher(grammar);
  for (const char byte : std::string_view("[[[")) ASSERT_TRUE(matcher.accept(byte));
  ASSERT_TRUE(matcher.accept('x'));
  ASSERT_TRUE(matcher.accept(']'));
  EXPECT_TRUE(matcher.rollback(2));
  EXPECT_FALSE(matcher.accept(']'));
  EXPECT_TRUE(matcher.accept_bytes("[x]]]]"));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_FALSE(matcher.rollback(100));
  EXPECT_TRUE(matcher.rollback(4));
}

TEST(Matcher, CollectsWhatItNoLongerNeeds) {
  const auto grammar = ebnf("root ::= \"[\" (root (\",\" root)*)? \"]\"");
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept_bytes("["));
  Rng rng(3);
  int depth = 1;
  for (int i = 0; i < 60000; ++i) {
    const bool open = depth < 300 && (depth < 2 || rng.below(2) == 0);
    if (open && matcher.accept('[')) {
      ++depth;
    } else if (depth > 1 && matcher.accept(']')) {
      --depth;
    } else {
      ASSERT_TRUE(matcher.accept(','));
      ASSERT_TRUE(matcher.accept('['));
      ++depth;
    }
  }
  EXPECT_LT(matcher.bytes(), std::size_t{8} << 20);
  EXPECT_TRUE(matcher.accept_bytes(std::string(static_cast<std::size_t>(depth), ']')));
  EXPECT_TRUE(matcher.can_end());
}

// A rule that may end by calling another that matches nothing: what follows its caller may come.
TEST(Matcher, WhatFollowsARuleThatEndsInNothingMayCome) {
  const auto grammar =
      ebnf("root ::= f \"z\"\nf ::= \"(\" f \")\" n | \"x\" n\nn ::= \"[\" n \"]\" | \"\"");
  Matcher matcher(grammar);
  for (const char byte : std::string_view("(x)z")) {
    expect_mask_agrees(matcher, "(x)z");
    ASSERT_TRUE(matcher.accept_bytes({&byte, 1}));
  }
  EXPECT_TRUE(matcher.can_end());
}

TEST(Matcher, NestsNoDeeperThanItsLimit) {
  const auto grammar = ebnf("root ::= \"[\" root \"]\" | \"x\"");
  Matcher matcher(grammar);
  std::size_t depth = 0;
  while (depth < 3000 && matcher.accept('[')) {
    ++depth;
    if (depth > StackSets::kMaxDepth - 20) expect_mask_agrees(matcher, "[...");
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(depth, StackSets::kMaxDepth - 2);
  EXPECT_LT(depth, StackSets::kMaxDepth + 2);
  EXPECT_TRUE(matcher.accept_bytes("x" + std::string(depth, ']')));
  EXPECT_TRUE(matcher.can_end());
}

// Grammars made to take exponential time or memory elsewhere.
TEST(Matcher, HostileGrammarsStayBounded) {
  const std::vector<std::shared_ptr<const CompiledGrammar>> grammars = {
      regex("(a|b)*a(a|b){20}(x|y)"),
      regex("((a*)*)*b"),
      regex("(((a{1,1000}){1,1000}){1,1000}){1,1000}b"),
      regex("(a|a|aa|aaa){1,1000000}b"),
      ebnf("root ::= \"a\" root | \"a\" root \"b\" | \"a\" root \"c\" | \"x\""),
      ebnf("root ::= s \"$\"\ns ::= s s | \"a\" | t\nt ::= \"a\" t \"a\" | \"a\""),
      ebnf("root ::= p | q\np ::= \"(\" p \")\" | \"(\" q \"]\" | \"a\"\n"
           "q ::= \"(\" p \")\" | \"(\" q \"]\" | \"a\""),
      regex(std::string(90, '(') + "a" +
            []() {
              std::string closing;
              for (int i = 0; i < 90; ++i) closing += ")+";
              return closing;
            }()),
  };
  for (std::size_t i = 0; i < grammars.size(); ++i) {
    SCOPED_TRACE(i);
    Matcher matcher(grammars[i]);
    std::vector<std::uint32_t> words(grammars[i]->vocabulary().words());
    const std::string_view byte = i == 6 ? "(" : "a";
    for (int step = 0; step < 60; ++step) {
      ASSERT_TRUE(matcher.accept_bytes(byte));
      matcher.fill_mask(words);
      ASSERT_FALSE(matcher.exhausted());
    }
    EXPECT_LT(matcher.bytes(), std::size_t{64} << 20);
    EXPECT_LT(grammars[i]->bytes(), std::size_t{4} << 20);
  }
}

// What takes more than the budget says which limit, wherever it is met.
TEST(Matcher, CompilingEndsAtTheBudget) {
  std::string optional;
  std::string rules = "root ::= r0 \"!\"\n";
  std::string texts = "root ::= \"x\"";
  std::string deep = "root ::= r0\n";
  for (int i = 0; i < 12000; ++i) {
    optional += "a?";
    texts += fmt::format("|\"{}{}\"", std::string(12, 'a'), i);
  }
  for (int i = 0; i < 1500; ++i) {
    rules += fmt::format("r{} ::= r{} r{} | \"\" | [a-z]{{40,70}}\n", i, i + 1, i + 1);
  }
  for (int i = 0; i < 1000; ++i) {
    deep += fmt::format("r{} ::= \"({}\" r{} \")\"\n", i, std::string(40, 'a'), i + 1);
  }
  rules += "r1500 ::= [a-z]{40,70}";
  deep += "r1000 ::= \"a\"";
  const auto regex_limit = [](std::string_view text) {
    Grammar grammar;
    const auto root = parse_regex(grammar, text);
    if (!root) return root.error().message;
    grammar.set_root(grammar.add_rule("root", *root));
    const auto compiled = CompiledGrammar::create(std::move(grammar), small_vocabulary());
    return compiled ? std::string() : compiled.error().message;
  };
  EXPECT_NE(regex_limit(optional).find("takes over 134217728 bytes, the limit"), std::string::npos)
      << regex_limit(optional);
  EXPECT_NE(ebnf_error(texts).find("takes over 131072 states, the limit"), std::string::npos);
  EXPECT_NE(ebnf_error(deep).find("rules deep, limit 500"), std::string::npos) << ebnf_error(deep);
  EXPECT_EQ(ebnf_error(rules), "");
}

// A mask that would take more than a walk may: the matcher says so, and lets nothing pass.
TEST(Matcher, AWalkEndsAtItsLimit) {
  std::vector<std::string> pieces;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      for (char c = 'a'; c <= 'z'; ++c) {
        for (char d = 'a'; d <= 'z'; ++d) pieces.push_back({a, b, c, d});
      }
    }
  }
  pieces.emplace_back("<end>");
  const auto end = static_cast<TokenId>(pieces.size() - 1);
  const auto vocabulary = std::make_shared<const Vocabulary>(pieces, std::vector<TokenId>{end});
  std::string text = "root ::= x\nx ::= \".\"";
  for (char c = 'a'; c <= 'z'; ++c) text += fmt::format(" | [a-{0}] y{0} | \"{0}\" x x", c);
  for (char c = 'a'; c <= 'z'; ++c) {
    text += fmt::format("\ny{0} ::= [{0}-z] y{0} | x [a-{0}]{{2,90}}", c);
  }
  auto grammar = parse_ebnf(text);
  ASSERT_TRUE(grammar) << grammar.error().message << text;
  const auto compiled = CompiledGrammar::create(*std::move(grammar), vocabulary);
  ASSERT_TRUE(compiled) << compiled.error().message;
  Matcher matcher(*compiled);
  std::vector<std::uint32_t> words(vocabulary->words());
  EXPECT_FALSE(matcher.fill_mask(words));
  EXPECT_TRUE(matcher.exhausted());
  EXPECT_EQ(std::count(words.begin(), words.end(), 0U), std::ssize(words));
  EXPECT_FALSE(matcher.accept(0));
}

}  // namespace
}  // namespace saccade::grammar
