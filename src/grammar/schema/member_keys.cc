#include "grammar/schema/member_keys.h"

#include <map>
#include <utility>

#include "grammar/frontends/regex_parser.h"
#include "text/unicode/unicode.h"

namespace saccade::grammar {
namespace {

struct KeyNode {
  bool is_name = false;
  std::map<char32_t, std::size_t> next;
};

std::vector<KeyNode> trie_of(const std::vector<std::string>& names) {
  std::vector<KeyNode> nodes(1);
  for (const std::string& name : names) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < name.size();) {
      const Utf8Step step = decode_utf8(name, i);
      i += step.length;
      const auto [found, fresh] = nodes[at].next.try_emplace(step.code, nodes.size());
      at = found->second;
      if (fresh) nodes.emplace_back();
    }
    nodes[at].is_name = true;
  }
  return nodes;
}

// A character that is none of `begun` (normalized), raw or by a letter.
NodeId other_character(Grammar& grammar, const std::vector<CharacterRange>& begun) {
  constexpr std::pair<char, char> kEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},
                                                {'\b', 'b'}, {'\f', 'f'},  {'\n', 'n'},
                                                {'\r', 'r'}, {'\t', 't'}};
  const auto others = complement(begun);
  std::vector<CharacterRange> letters;
  for (const auto& [character, letter] : kEscapes) {
    const auto code = static_cast<char32_t>(character);
    const auto as = static_cast<char32_t>(letter);
    if (!intersection(others, {{code, code}}).empty()) letters.push_back({as, as});
  }
  const auto raw = intersection(others, complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  return grammar.choice({grammar.characters(raw),
                         grammar.sequence({grammar.text("\\"), grammar.characters(letters)})});
}

}  // namespace

NodeId other_member_key(Grammar& grammar, JsonValues& values,
                        const std::vector<std::string>& names) {
  const std::vector<KeyNode> nodes = trie_of(names);
  const NodeId quote = grammar.text("\"");
  const RuleId tail = grammar.add_rule(
      "key", grammar.sequence({grammar.repeat(values.character(), 0, kUnbounded), quote}));
  const NodeId rest = grammar.call(tail);
  std::vector<NodeId> made(nodes.size());
  for (std::size_t i = nodes.size(); i-- > 0;) {  // what follows has the larger number
    std::vector<NodeId> ways;
    std::vector<CharacterRange> begun;
    if (!nodes[i].is_name) ways.push_back(quote);
    for (const auto& [code, next] : nodes[i].next) {
      begun.push_back({code, code});
      ways.push_back(grammar.sequence(
          {json_string_character(grammar, normalized({{code, code}})), made[next]}));
    }
    ways.push_back(grammar.sequence({other_character(grammar, normalized(begun)), rest}));
    made[i] = grammar.choice(ways);
  }
  return grammar.sequence({quote, made[0]});
}

}  // namespace saccade::grammar
