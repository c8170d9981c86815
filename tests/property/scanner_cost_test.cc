// Every scanner of bytes from outside goes over them a fixed number of times, whatever they are.
// Counted by visits of pages (tests/support/page_visits.h), of texts that repeat what each scanner
// takes for special.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "base/text/base64.h"
#include "cluster/proxy/body_scan.h"
#include "cluster/proxy/passed_headers.h"
#include "grammar/frontends/ebnf_parser.h"
#include "grammar/frontends/regex_parser.h"
#include "net/client/response_parser.h"
#include "net/server/request_parser.h"
#include "net/sse.h"
#include "serve/handlers/path_hint.h"
#include "tests/support/page_visits.h"
#include "text/jinja/syntax/parser.h"
#include "text/pipeline/tokenizer_json.h"
#include "text/tokenizer.h"
#include "tools/answer_parser.h"
#include "tools/reasoning_parser.h"

namespace saccade {
namespace {

// Of a text four times as long: five times would be n log n, sixteen the square.
constexpr std::size_t kLonger = 4;
constexpr std::size_t kMaxTimes = 6;
constexpr std::size_t kFew = 256;
constexpr std::size_t kMaxOfAPage = 4000;  // trees take many times their text
constexpr std::size_t kNetworkPiece = 16384;

struct Scanner {
  std::size_t bytes = 0;           // of a text
  std::vector<std::string> heads;  // what texts begin with
  std::vector<std::string> atoms;  // what they go on with
  std::function<void(std::string_view)> scan;
};

std::string repeated(const std::string& head, const std::vector<std::string>& atoms,
                     std::size_t bytes) {
  std::string text = head;
  for (std::size_t i = 0; text.size() < bytes; ++i) text += atoms[i % atoms.size()];
  return text;
}

void expect_flat(const Scanner& scanner, const std::string& head,
                 const std::vector<std::string>& atoms) {
  const std::string short_text = repeated(head, atoms, scanner.bytes / kLonger);
  const std::size_t pages = short_text.size() / page_bytes() + 1;
  const std::size_t visits = page_visits(short_text, scanner.scan, kMaxOfAPage * pages);
  std::string shown;
  for (const std::string& atom : atoms) json::append_quoted(shown, atom);
  SCOPED_TRACE(shown + " behind " + head.substr(0, 64));
  ASSERT_LE(visits, kMaxOfAPage * pages);
  const std::size_t times = kMaxTimes * visits + kFew;
  const std::size_t most = times + times / 50;  // pages are whole
  EXPECT_LE(page_visits(repeated(head, atoms, scanner.bytes), scanner.scan, most), most)
      << visits << " visits of " << pages << " pages of a text a quarter as long";
}

// Each atom alone behind each head, and some of them together.
void expect_linear(const Scanner& scanner) {
  constexpr int kMixed = 12;
  for (const std::string& head : scanner.heads)
    for (const std::string& atom : scanner.atoms) expect_flat(scanner, head, {atom});
  Rng rng(11);
  for (int i = 0; i < kMixed; ++i) {
    std::vector<std::string> some;
    for (std::uint64_t n = 2 + rng.below(3); n > 0; --n)
      some.push_back(scanner.atoms[rng.below(scanner.atoms.size())]);
    expect_flat(scanner, scanner.heads[rng.below(scanner.heads.size())], some);
  }
}

const std::vector<std::string> kJsonAtoms = {
    "\\\\", "\\\"", "\\u4e2d", "\\n", "a",   "\"",   "\",\"", "[",  "{",       "{\"a\":",
    "1,",   "1",    "-",       " ",   "[],", "true", "\":\"", "e1", "\\ud83d", "\xe4\xb8\xad"};

template <typename Feed>
void in_pieces(std::string_view text, Feed&& feed) {
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kNetworkPiece)))
    if (!feed(text.substr(0, kNetworkPiece))) return;
}

TEST(ScannerCost, ABodyThatAProxyLooksInto) {
  const std::vector<std::string> heads = {
      "", "{\"model\":\"", R"({"messages":[{"role":"user","content":")",
      R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")"};
  const auto whole = [](std::string_view text) {
    cluster::BodyScan scan;
    scan.feed(text);
  };
  expect_linear({std::size_t{512} << 10, heads, kJsonAtoms, whole});
}

TEST(ScannerCost, Json) {
  expect_linear({std::size_t{256} << 10,
                 {"", "\"", "[", "{\"a\":\"", "["},
                 kJsonAtoms,
                 [](std::string_view text) { std::ignore = json::parse(text); }});
}

TEST(ScannerCost, Base64) {
  expect_linear({std::size_t{512} << 10,
                 {"", "A"},
                 {"AAAA", "A", "=", "====", "\n", "AAAA\r\n", "%2B", "-_", " "},
                 [](std::string_view text) { std::ignore = base64_decode(text); }});
}

TEST(ScannerCost, Templates) {
  expect_linear({std::size_t{192} << 10,
                 {"", "{{ ", "{% raw %}", "{#", "{% if a %}"},
                 {"{%",
                  "{% raw",
                  "{% endraw",
                  "{% endraw %}",
                  "{#",
                  "#}",
                  "{# #}",
                  "{{ a }}",
                  "{{-",
                  "-}}",
                  "{% raw %}{% endraw %}",
                  "'",
                  "\\",
                  "'\\'",
                  "1_",
                  "1.",
                  "1e",
                  "1e1",
                  "\n",
                  " ",
                  "\r\n",
                  "\r",
                  "(",
                  "[",
                  "a",
                  "a ",
                  "a.",
                  "a|",
                  "not ",
                  "-",
                  "\xc3\xa9",
                  "{% if a %}",
                  "{%- -%}",
                  "'' "},
                 [](std::string_view text) { std::ignore = jinja::parse(text); }});
}

TEST(ScannerCost, ServerSentEvents) {
  expect_linear(
      {std::size_t{512} << 10,
       {"", "data: ", "data: a\n"},
       {"\n", "\r", "\r\n", "data: a\n", "data:\r", "data: a\n\n", ":", ":\r\r", "a", "data"},
       [](std::string_view text) {
         net::SseScanner scanner;
         in_pieces(text, [&](std::string_view piece) {
           return scanner.feed(piece, [](std::string_view) {});
         });
       }});
}

// As a connection does it: what is not taken is given again, with more behind it.
void read_request(std::string_view text) {
  net::RequestParser parser(std::size_t{4} << 20, std::size_t{4} << 20);
  std::size_t begin = 0;
  for (std::size_t end = 0; end < text.size();) {
    end = std::min(text.size(), end + kNetworkPiece);
    while (true) {
      const auto step = parser.feed(text.substr(begin, end - begin));
      begin += step.consumed;
      if (step.progress == net::RequestParser::Progress::kNeedMore) break;
      if (step.progress != net::RequestParser::Progress::kHeaderDone) return;
    }
  }
}

TEST(ScannerCost, HeadersAndChunksOfRequests) {
  const std::string line = "POST /v1/chat/completions HTTP/1.1\r\n";
  expect_linear({std::size_t{192} << 10,
                 {"", "GET /", line, line + "A: ", line + "Transfer-Encoding: chunked\r\n\r\n",
                  line + "Transfer-Encoding: chunked\r\n\r\n1;"},
                 {"a",
                  "\r\n",
                  "\r",
                  "\n",
                  "A: b\r\n",
                  "A:\r\n",
                  " ",
                  " b\r\n",
                  "%41",
                  "/",
                  ",",
                  "a,",
                  "1\r\na\r\n",
                  "1;a=b\r\na\r\n",
                  "0",
                  ";a=\"\\",
                  "\"",
                  "Transfer-Encoding: chunked\r\n",
                  "Connection: close,close\r\n",
                  "Connection: a\r\n"},
                 read_request});
}

// As many names as a head has room for, and as many headers.
TEST(ScannerCost, HeadersThatAProxyPassesOn) {
  const auto pass = [](std::string_view text) {
    std::vector<std::pair<std::string, std::string>> headers = {{"connection", std::string(text)}};
    for (std::size_t i = 0; i < text.size() / 64; ++i) headers.emplace_back("x", "");
    std::ignore = cluster::passed_on(headers);
  };
  expect_linear({std::size_t{256} << 10, {""}, {"a,", "ab ,", ",", " ", "a"}, pass});
}

TEST(ScannerCost, PathsThatMayBeMeant) {
  const auto exists = [](std::string_view path) { return path == "/v1/models"; };
  expect_linear({std::size_t{192} << 10,
                 {"", "/v1"},
                 {"/v1", "/", "a", "/v1/", "s"},
                 [&](std::string_view text) { std::ignore = serve::path_meant(text, exists); }});
}

class Nowhere final : public net::ResponseSink {
 public:
  bool on_head(int, std::vector<std::pair<std::string, std::string>>&&) override { return true; }
  bool on_body(std::string_view) override { return true; }
};

TEST(ScannerCost, HeadersAndChunksOfResponses) {
  const std::string line = "HTTP/1.1 200 OK\r\n";
  expect_linear({std::size_t{192} << 10,
                 {"", line, line + "A: ", line + "Transfer-Encoding: chunked\r\n\r\n",
                  line + "Transfer-Encoding: chunked\r\n\r\n0\r\n"},
                 {"a", "\r\n", "\r", "\n", "A: b\r\n", " ", " b\r\n", ",", "Connection: a,a\r\n",
                  "1\r\na\r\n", "1;a=b\r\na\r\n", "0", "HTTP/1.1 100 \r\n\r\n"},
                 [](std::string_view text) {
                   net::ResponseParser parser(std::size_t{4} << 20);
                   Nowhere nowhere;
                   parser.reset(false);
                   in_pieces(text, [&](std::string_view piece) {
                     return parser.feed(piece, nowhere) == net::ResponseParser::State::kMore;
                   });
                 }});
}

TEST(ScannerCost, RegularExpressionsOfRequests) {
  expect_linear({std::size_t{63} << 10,
                 {"", "[", "("},
                 {"a", "[", "[a]", "(", "(a)", "|", "a|", "a{1,2}", "{", "\\", "\\d", "\\x41", "^",
                  "$", "a?", "(?:", "a-b"},
                 [](std::string_view text) {
                   grammar::Grammar grammar;
                   std::ignore = grammar::parse_regex(grammar, text);
                 }});
}

TEST(ScannerCost, GrammarsOfRequests) {
  expect_linear({std::size_t{256} << 10,
                 {"", "root ::= ", "root ::= \"", "root ::= ["},
                 {"a", "\"", "\"a\" ", "#", "\n", "a ::= b\n", "::=", "(", "[", "[a]", "|", "\\\\",
                  "a{1,2} ", " ", "# a\n", "a "},
                 [](std::string_view text) { std::ignore = grammar::parse_ebnf(text); }});
}

// Calls of tools, as text comes token by token.
TEST(ScannerCost, AnswersOfModels) {
  static constexpr std::size_t kToken = 4;
  for (const tools::ToolCallFormat& format : tools::tool_call_formats()) {
    SCOPED_TRACE(format.name);
    tools::ParserForm form;
    form.calls = &format;
    form.tools = std::make_shared<const json::array>();
    std::vector<std::string> heads = {""};
    std::vector<std::string> atoms = {"a",  "<",  "{",  "\"", "\\",   "[",
                                      "f(", "</", "\n", "<|", "\\u00"};
    for (const tools::CallMarker& marker : format.markers) {
      atoms.emplace_back(marker.begin);
      if (!marker.end.empty()) atoms.emplace_back(marker.end);
      heads.push_back(std::string(marker.begin) + R"({"name": "f", "arguments": {"a": ")");
    }
    expect_linear({std::size_t{64} << 10, heads, atoms, [&](std::string_view text) {
                     tools::AnswerParser parser(form);
                     tools::AnswerEvents events;
                     for (; !text.empty(); text.remove_prefix(std::min(text.size(), kToken))) {
                       parser.feed(text.substr(0, kToken), events);
                       events.clear();
                     }
                     parser.finish(events);
                   }});
  }
}

// Thoughts, as text comes token by token.
TEST(ScannerCost, ThoughtsOfModels) {
  static constexpr std::size_t kToken = 4;
  for (const tools::ReasoningFormat& format : tools::reasoning_formats()) {
    for (const bool inside : {false, true}) {
      SCOPED_TRACE(std::string(format.name) + (inside ? ", opened by the prompt" : ""));
      const std::string begin(format.begin);
      const std::string end(format.end);
      const std::vector<std::string> heads = {"", begin, begin + "a", begin + "a" + end};
      const std::vector<std::string> atoms = {" ",
                                              "\n",
                                              "a",
                                              "a ",
                                              "<",
                                              "</",
                                              begin,
                                              end,
                                              begin.substr(0, begin.size() / 2),
                                              end.substr(0, end.size() / 2)};
      expect_linear({std::size_t{64} << 10, heads, atoms, [&](std::string_view text) {
                       tools::ReasoningParser parser(format, inside);
                       tools::AnswerEvents events;
                       for (; !text.empty(); text.remove_prefix(std::min(text.size(), kToken))) {
                         std::ignore = parser.feed(text.substr(0, kToken), events);
                         events.clear();
                       }
                       std::ignore = parser.finish(events);
                     }});
    }
  }
}

TEST(ScannerCost, TextsToTokens) {
  const auto tokenizer = load_tokenizer("models/glimpse");
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  expect_linear(
      {std::size_t{128} << 10,
       {"", "<|"},
       {"a", " ", "\n", " \n", "<|", "<|im_start|>", "1", "!", "\xe4\xb8\xad", "a ", "\xff", "'s"},
       [&](std::string_view text) { std::ignore = (*tokenizer)->encode(text); }});
}

// Expressions that a tokenizer.json brings may cost as much as the text is long at each place, or
// millions of steps for a piece of it. All of a text's have one bound, and nothing of it is lost:
// without the bound this takes hours.
TEST(ScannerCost, ExpressionsOfATokenizer) {
  const std::string hostile = "(?:a|aa|a?a)+(?:a|b)+c";
  for (const std::string& pattern :
       {hostile, std::string("[a-z]*[0-9]"), std::string("(?=[a-z ]*[0-9])a"),
        std::string("(?:a+)+[0-9]")}) {
    auto root = json::parse_file("models/glimpse/tokenizer.json");
    ASSERT_TRUE(root) << root.error().message;
    root->as_object()["pre_tokenizer"] = boost::json::parse(
        R"({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": false},
            {"type": "Split", "pattern": {"Regex": ")" +
        pattern +
        R"("}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false, "trim_offsets": true}]})");
    const auto tokenizer = build_tokenizer(*root, {});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (const std::string& piece : {std::string(40, 'a') + " ", std::string(9000, 'a')}) {
      const std::string text = repeated("", {piece}, std::size_t{128} << 10);
      EXPECT_EQ((*tokenizer)->decode((*tokenizer)->encode(text, {}), false), text) << pattern;
    }
  }
}

}  // namespace
}  // namespace saccade
