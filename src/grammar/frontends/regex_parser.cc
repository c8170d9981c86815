#include "grammar/frontends/regex_parser.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "grammar/frontends/character_escape.h"
#include "text/unicode/unicode.h"

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxPattern = std::size_t{64} << 10;
constexpr int kMaxRegexDepth = 100;

class RegexParser {
 public:
  RegexParser(Grammar& grammar, std::string_view pattern, const RegexOptions& options)
      : grammar_(grammar), text_(pattern), options_(options) {}

  Result<NodeId> parse() {
    TRY(const NodeId whole, parse_alternatives(0, true));
    if (at_ < text_.size()) return refuse(ErrorCode::kInvalid, "unbalanced ')'");
    return whole;
  }

 private:
  tl::unexpected<Error> refuse(ErrorCode code, std::string_view what) const {
    return fail(code, "regex: {} at byte {}", what, at_);
  }
  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }

  // `outer`: the alternatives of the whole expression, where anchors may stand.
  Result<NodeId> parse_alternatives(int depth, bool outer) {
    if (depth > kMaxRegexDepth) {
      return fail(ErrorCode::kTooLarge, "regex: groups nest over {} deep", kMaxRegexDepth);
    }
    std::vector<NodeId> alternatives;
    do {
      TRY(const NodeId alternative, parse_sequence(depth, outer));
      alternatives.push_back(alternative);
    } while (take("|"));
    return grammar_.choice(alternatives);
  }

  Result<NodeId> parse_sequence(int depth, bool outer) {
    std::vector<NodeId> parts;
    bool from_start = false;
    bool to_end = false;
    while (outer && take("^")) from_start = true;
    while (at_ < text_.size() && !next_is("|") && !next_is(")")) {
      if (take("$")) {
        to_end = true;
        const bool last = at_ == text_.size() || next_is("|") || next_is("$");
        if (outer && last) continue;
        --at_;
        return refuse(ErrorCode::kUnsupported, "'$' that is not the end of the expression");
      }
      if (next_is("^")) {
        return refuse(ErrorCode::kUnsupported, "'^' that is not the start of the expression");
      }
      TRY(const NodeId part, parse_repeated(depth));
      parts.push_back(part);
      TRY_DO(grammar_.check_budget());
    }
    if (outer && options_.search) {
      if (!from_start) parts.insert(parts.begin(), anything());
      if (!to_end) parts.push_back(anything());
    }
    return grammar_.sequence(parts);
  }

  NodeId anything() { return grammar_.repeat(character(complement({})), 0, kUnbounded); }

  Result<NodeId> parse_repeated(int depth) {
    TRY(NodeId node, parse_atom(depth));
    while (at_ < text_.size()) {
      std::uint32_t min = 0;
      std::uint32_t max = kUnbounded;
      const std::size_t before = at_;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (next_is("{")) {
        TRY(const bool counted, parse_counts(min, max));
        if (!counted) break;
      } else {
        break;
      }
      if (before != at_ && next_is("+")) {
        return refuse(ErrorCode::kUnsupported, "a possessive quantifier");
      }
      take("?");  // lazy: the same texts
      node = grammar_.repeat(node, min, max);
      if (next_is("*") || next_is("?") || next_is("+")) {
        return refuse(ErrorCode::kInvalid, "a quantifier after a quantifier");
      }
    }
    return node;
  }

  // {m}, {m,} or {m,n}; false when this brace is a plain character.
  Result<bool> parse_counts(std::uint32_t& min, std::uint32_t& max) {
    const std::size_t start = at_;
    ++at_;
    const auto low = parse_count();
    bool open = false;
    std::optional<std::uint64_t> high = low;
    if (take(",")) {
      high = parse_count();
      open = !high;
    }
    if (!low || !take("}")) {
      at_ = start;
      return false;
    }
    if (*low >= kUnbounded || (high && *high >= kUnbounded)) {
      return fail(ErrorCode::kTooLarge, "regex: a count over {} at byte {}", kUnbounded - 1, start);
    }
    if (!open && *high < *low) {
      return fail(ErrorCode::kInvalid, "regex: {{{},{}}} at byte {}", *low, *high, start);
    }
    min = static_cast<std::uint32_t>(*low);
    max = open ? kUnbounded : static_cast<std::uint32_t>(*high);
    return true;
  }

  std::optional<std::uint64_t> parse_count() {
    std::optional<std::uint64_t> value;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = std::min<std::uint64_t>(
          value.value_or(0) * 10 + static_cast<unsigned>(text_[at_] - '0'), kUnbounded);
    }
    return value;
  }

  Result<NodeId> parse_atom(int depth) {
    if (next_is("(")) return parse_group(depth);
    if (take("[")) {
      TRY(const auto ranges, parse_class());
      return character(ranges);
    }
    if (take(".")) {
      return character(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    }
    if (next_is("*") || next_is("+") || next_is("?")) {
      return refuse(ErrorCode::kInvalid, "a quantifier with nothing before it");
    }
    if (next_is("\\")) {
      TRY(const auto ranges, parse_escape(false));
      return character(ranges);
    }
    TRY(const char32_t code, parse_character());
    return character({{code, code}});
  }

  Result<NodeId> parse_group(int depth) {
    ++at_;
    if (take("?")) {
      if (next_is("=") || next_is("!") || next_is("<=") || next_is("<!")) {
        return refuse(ErrorCode::kUnsupported, "look-around");
      }
      if (next_is(">")) return refuse(ErrorCode::kUnsupported, "an atomic group");
      if (take("P<") || take("<")) {
        const std::size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) return refuse(ErrorCode::kInvalid, "a group's name");
        at_ = end + 1;
      } else if (next_is("P")) {
        return refuse(ErrorCode::kUnsupported, "a back-reference");
      } else if (!take(":")) {
        return refuse(ErrorCode::kUnsupported, "inline flags");
      }
    }
    TRY(const NodeId inside, parse_alternatives(depth + 1, false));
    if (!take(")")) return refuse(ErrorCode::kInvalid, "a missing ')'");
    return inside;
  }

  Result<char32_t> parse_character() {
    const Utf8Step step = decode_utf8(text_, at_);
    if (step.kind != Utf8Step::Kind::kCharacter)
      return refuse(ErrorCode::kInvalid, "invalid UTF-8");
    at_ += step.length;
    return step.code;
  }

  // After '['.
  Result<std::vector<CharacterRange>> parse_class() {
    const bool negated = take("^");
    std::vector<CharacterRange> ranges;
    while (!next_is("]")) {
      if (at_ >= text_.size()) return refuse(ErrorCode::kInvalid, "a missing ']'");
      if (next_is("[:")) return refuse(ErrorCode::kUnsupported, "a POSIX class");
      TRY(auto item, parse_class_item());
      const bool single = item.size() == 1 && item[0].first == item[0].last;
      const bool ranged = single && next_is("-") && !next_is("-]");
      if (!ranged) {
        ranges.insert(ranges.end(), item.begin(), item.end());
        continue;
      }
      ++at_;
      if (at_ >= text_.size()) return refuse(ErrorCode::kInvalid, "a missing ']'");
      TRY(const auto last, parse_class_item());
      if (last.size() != 1 || last[0].first != last[0].last || last[0].first < item[0].first) {
        return refuse(ErrorCode::kInvalid, "a range out of order");
      }
      ranges.push_back({item[0].first, last[0].last});
    }
    ++at_;
    ranges = normalized(std::move(ranges));
    return negated ? complement(ranges) : ranges;
  }

  Result<std::vector<CharacterRange>> parse_class_item() {
    if (next_is("\\")) return parse_escape(true);
    TRY(const char32_t code, parse_character());
    return std::vector<CharacterRange>{{code, code}};
  }

  Result<std::vector<CharacterRange>> parse_escape(bool in_class) {
    auto escape = take_character_escape(text_, at_);
    if (!escape) return fail_within("regex", std::move(escape).error());
    if (escape->kind == CharacterEscape::Kind::kWordBoundary && in_class) {
      return std::vector<CharacterRange>{{'\b', '\b'}};
    }
    if (escape->kind != CharacterEscape::Kind::kCharacters) {
      return fail(ErrorCode::kUnsupported, "regex: {} before byte {}",
                  escape->kind == CharacterEscape::Kind::kWordBoundary ? "a word boundary"
                                                                       : "a back-reference",
                  at_);
    }
    return escape->ranges;
  }

  NodeId character(const std::vector<CharacterRange>& ranges) {
    if (options_.json_string) {
      const auto [found, fresh] = json_characters_.try_emplace(ranges, 0);
      if (fresh) found->second = json_string_character(grammar_, ranges);
      return found->second;
    }
    if (ranges.size() == 1 && ranges[0].first == ranges[0].last) {
      std::string bytes;
      append_utf8(bytes, ranges[0].first);
      return grammar_.text(bytes);
    }
    return grammar_.characters(ranges);
  }

  Grammar& grammar_;
  std::string_view text_;
  RegexOptions options_;
  std::size_t at_ = 0;
  std::map<std::vector<CharacterRange>, NodeId> json_characters_;
};

}  // namespace

Result<NodeId> parse_regex(Grammar& grammar, std::string_view pattern,
                           const RegexOptions& options) {
  if (pattern.size() > kMaxPattern) {
    return fail(ErrorCode::kTooLarge, "regex: {} bytes, limit {}", pattern.size(), kMaxPattern);
  }
  return RegexParser(grammar, pattern, options).parse();
}

NodeId json_string_character(Grammar& grammar, const std::vector<CharacterRange>& ranges) {
  static const std::vector<CharacterRange> kRaw = complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  std::vector<NodeId> forms;
  const auto raw = intersection(ranges, kRaw);
  if (!raw.empty()) forms.push_back(grammar.characters(raw));
  for (const CharacterRange& range :
       intersection(ranges, normalized({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}))) {
    for (char32_t code = range.first; code <= range.last; ++code) {
      constexpr std::string_view kShort[] = {"\"\"", "\\\\", "\bb", "\ff", "\nn", "\rr", "\tt"};
      std::optional<char> letter;
      for (const std::string_view pair : kShort) {
        if (static_cast<char32_t>(pair[0]) == code) letter = pair[1];
      }
      if (letter) {
        forms.push_back(grammar.text(std::string{'\\', *letter}));
      } else {
        const char high = code < 0x10 ? '0' : '1';
        const auto digit = static_cast<char>(code % 16);
        std::vector<CharacterRange> low;
        if (digit < 10) {
          low = {{static_cast<char32_t>('0' + digit), static_cast<char32_t>('0' + digit)}};
        } else {
          const auto index = static_cast<char32_t>(digit - 10);
          low = {{'A' + index, 'A' + index}, {'a' + index, 'a' + index}};
        }
        forms.push_back(grammar.sequence(
            {grammar.text(std::string{'\\', 'u', '0', '0', high}), grammar.characters(low)}));
      }
    }
  }
  return grammar.choice(forms);
}

}  // namespace saccade::grammar
