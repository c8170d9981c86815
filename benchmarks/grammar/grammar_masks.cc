// Masks and their cost, for tools/grammar_oracle.py to set beside other engines'.
//
//   grammar_masks TOKENIZER_DIR VOCABULARY_SIZE END_TOKEN pieces > pieces.jsonl
//   grammar_masks TOKENIZER_DIR VOCABULARY_SIZE END_TOKEN MASKS < cases.jsonl > answers.jsonl
//
// A case is {"kind", "text", "compact", "strict", "walks": [[token, ...], ...]}; its answer
// {"error"} or {"compile_us", "walks": [{"taken", "us": [...]}]}. The masks of each step, the one
// after the last token included, are written to the file MASKS, one after another.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "base/json.h"
#include "grammar/automaton/grammar_cache.h"
#include "grammar/automaton/matcher.h"

namespace {

using namespace saccade;

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

Result<grammar::GrammarSpec> spec_of(const json::object& from) {
  grammar::GrammarSpec spec;
  TRY(const std::string kind, json::get_string(from, "kind"));
  TRY(spec.text, json::get_string(from, "text"));
  TRY(const bool compact, json::get_bool_or(from, "compact", false));
  TRY(spec.json.strict, json::get_bool_or(from, "strict", true));
  spec.json.whitespace = compact ? grammar::Whitespace::kCompact : grammar::Whitespace::kAny;
  using Kind = grammar::GrammarSpec::Kind;
  spec.kind = kind == "json_schema"   ? Kind::kJsonSchema
              : kind == "json_object" ? Kind::kJsonObject
              : kind == "regex"       ? Kind::kRegex
              : kind == "ebnf"        ? Kind::kEbnf
                                      : Kind::kStructuralTag;
  return spec;
}

// One walk's steps.
void walk(const std::shared_ptr<const grammar::CompiledGrammar>& compiled,
          const json::array& tokens, std::ofstream& masks, json::JsonWriter& out) {
  grammar::Matcher matcher(compiled);
  std::vector<std::uint32_t> words(compiled->vocabulary().words());
  std::vector<double> spent;
  std::int64_t taken = 0;
  for (std::size_t i = 0; i <= tokens.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    matcher.fill_mask(words);
    spent.push_back(microseconds_since(start));
    masks.write(reinterpret_cast<const char*>(words.data()),
                static_cast<std::streamsize>(words.size() * sizeof(words[0])));
    if (i == tokens.size() || !matcher.accept(static_cast<TokenId>(tokens[i].to_number<int>())))
      break;
    ++taken;
  }
  out.begin_object();
  out.member("taken", taken);
  out.key("us");
  out.begin_array();
  for (const double us : spent) out.value(us);
  out.end_array();
  out.end_object();
}

Result<void> answer(grammar::GrammarCache& cache, const std::string& line, std::ofstream& masks) {
  TRY(const json::value parsed, json::parse(line));
  TRY(const grammar::GrammarSpec spec, spec_of(parsed.as_object()));
  std::string text;
  json::JsonWriter out(text);
  out.begin_object();
  const auto start = std::chrono::steady_clock::now();
  const auto compiled = cache.find(spec);
  out.member("compile_us", microseconds_since(start));
  if (!compiled) {
    out.member("error", compiled.error().message);
  } else {
    out.key("walks");
    out.begin_array();
    for (const json::value& tokens : parsed.as_object().at("walks").as_array()) {
      walk(*compiled, tokens.as_array(), masks, out);
    }
    out.end_array();
  }
  out.end_object();
  std::cout << text << '\n';
  return {};
}

void print_pieces(const grammar::Vocabulary& vocabulary) {
  for (TokenId token = 0; token < vocabulary.size(); ++token) {
    std::string hex;
    for (const char byte : vocabulary.piece(token)) {
      hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    std::cout << hex << '\n';
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "grammar_masks TOKENIZER_DIR VOCABULARY_SIZE END_TOKEN pieces|MASKS\n";
    return 2;
  }
  const auto tokenizer = load_tokenizer(arguments[1]);
  if (!tokenizer) {
    std::cerr << tokenizer.error().message << '\n';
    return 1;
  }
  const auto vocabulary = std::make_shared<const grammar::Vocabulary>(
      **tokenizer, std::stoi(arguments[2]), std::vector<TokenId>{std::stoi(arguments[3])});
  if (std::string_view(arguments[4]) == "pieces") {
    print_pieces(*vocabulary);
    return 0;
  }
  grammar::GrammarCache cache(vocabulary, std::size_t{1} << 30);
  std::ofstream masks(arguments[4], std::ios::binary);
  for (std::string line; std::getline(std::cin, line);) {
    if (const auto done = answer(cache, line, masks); !done) {
      std::cerr << done.error().message << '\n';
      return 1;
    }
  }
  return 0;
}
