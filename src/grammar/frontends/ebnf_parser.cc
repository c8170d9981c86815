#include "grammar/frontends/ebnf_parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/frontends/character_escape.h"
#include "text/unicode/unicode.h"

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 20;
constexpr int kMaxEbnfDepth = 100;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool begins_name(char c) { return is_name_character(c) && c != '.' && c != '-'; }

class EbnfParser {
 public:
  EbnfParser(std::string_view text, Grammar& grammar) : text_(text), grammar_(grammar) {}

  Result<void> parse(std::string_view root) {
    skip_blank();
    while (at_ < text_.size()) {
      TRY_DO(parse_rule());
      skip_blank();
    }
    const auto found = rules_.find(std::string(root));
    if (found == rules_.end()) {
      return fail(ErrorCode::kInvalid, "grammar: no rule '{}' to start from", root);
    }
    grammar_.set_root(found->second);
    return {};
  }

 private:
  tl::unexpected<Error> refuse(ErrorCode code, std::string_view what) const {
    const auto line =
        1 + std::count(text_.begin(),
                       text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())),
                       '\n');
    return fail(code, "grammar: {} in line {}", what, line);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' || text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view take_name() {
    const std::size_t start = at_;
    if (begins_name(peek())) {
      while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    }
    return text_.substr(start, at_ - start);
  }

  // Whether a name and "::=" follow: the next rule.
  bool at_rule() {
    const std::size_t start = at_;
    const bool named = !take_name().empty();
    skip_blank();
    const bool rule = named && text_.substr(at_).starts_with("::=");
    at_ = start;
    return rule;
  }

  RuleId rule_of(std::string_view name) {
    const auto [found, fresh] = rules_.try_emplace(std::string(name), 0);
    if (fresh) found->second = grammar_.declare(std::string(name));
    return found->second;
  }

  Result<void> parse_rule() {
    const std::string_view name = take_name();
    skip_blank();
    if (name.empty() || !take("::=")) {
      return refuse(ErrorCode::kInvalid, "expected a rule, 'name ::= ...',");
    }
    const RuleId rule = rule_of(name);
    if (grammar_.rule(rule).defined) {
      return refuse(ErrorCode::kInvalid, fmt::format("rule '{}' is defined again", name));
    }
    TRY(const NodeId body, parse_alternatives(0));
    grammar_.define(rule, body);
    return grammar_.check_budget();
  }

  Result<NodeId> parse_alternatives(int depth) {
    if (depth > kMaxEbnfDepth) {
      return fail(ErrorCode::kTooLarge, "grammar: parentheses nest over {} deep", kMaxEbnfDepth);
    }
    std::vector<NodeId> alternatives;
    do {
      TRY(const NodeId alternative, parse_sequence(depth));
      alternatives.push_back(alternative);
      skip_blank();
    } while (take("|"));
    return grammar_.choice(alternatives);
  }

  Result<NodeId> parse_sequence(int depth) {
    std::vector<NodeId> parts;
    for (skip_blank(); at_ < text_.size() && peek() != '|' && peek() != ')'; skip_blank()) {
      if (begins_name(peek()) && at_rule()) break;
      TRY(const NodeId part, parse_repeated(depth));
      parts.push_back(part);
    }
    return grammar_.sequence(parts);
  }

  Result<NodeId> parse_repeated(int depth) {
    TRY(NodeId node, parse_atom(depth));
    for (;;) {
      if (take("*")) {
        node = grammar_.repeat(node, 0, kUnbounded);
      } else if (take("+")) {
        node = grammar_.repeat(node, 1, kUnbounded);
      } else if (take("?")) {
        node = grammar_.optional(node);
      } else if (take("{")) {
        TRY(node, parse_counts(node));
      } else {
        return node;
      }
    }
  }

  Result<NodeId> parse_counts(NodeId what) {
    const auto low = parse_count();
    std::optional<std::uint64_t> high = low;
    skip_blank();
    bool open = false;
    if (take(",")) {
      high = parse_count();
      open = !high;
      skip_blank();
      if (take("-1")) high.reset(), open = true;  // as xgrammar prints it
    }
    skip_blank();
    if (!take("}") || (!low && (open || !high)))
      return refuse(ErrorCode::kInvalid, "bad counts in '{...}'");
    const std::uint64_t min = low.value_or(0);
    if (min >= kUnbounded || (!open && *high >= kUnbounded)) {
      return refuse(ErrorCode::kTooLarge, "a count over 4294967294");
    }
    if (!open && *high < min) return refuse(ErrorCode::kInvalid, "counts out of order");
    return grammar_.repeat(what, static_cast<std::uint32_t>(min),
                           open ? kUnbounded : static_cast<std::uint32_t>(*high));
  }

  std::optional<std::uint64_t> parse_count() {
    skip_blank();
    std::optional<std::uint64_t> value;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = std::min<std::uint64_t>(value.value_or(0) * 10 + static_cast<unsigned>(peek() - '0'),
                                      kUnbounded);
    }
    return value;
  }

  Result<NodeId> parse_atom(int depth) {
    const char c = peek();
    if (c == '"' || c == '\'') return parse_literal(c);
    if (take("(=")) return refuse(ErrorCode::kUnsupported, "look-ahead '(=...)' is not supported,");
    if (take("(")) {
      TRY(const NodeId inside, parse_alternatives(depth + 1));
      if (!take(")")) return refuse(ErrorCode::kInvalid, "a missing ')'");
      return inside;
    }
    if (take("[")) return parse_class();
    if (take(".")) return grammar_.characters(complement({}));
    if (c == '<') return refuse(ErrorCode::kUnsupported, "a token '<...>' is not supported,");
    const std::string_view name = take_name();
    if (name.empty()) {
      return refuse(ErrorCode::kInvalid, fmt::format("unexpected character '{}'", c));
    }
    return grammar_.call(rule_of(name));
  }

  Result<char32_t> parse_character() {
    if (peek() == '\\') {
      TRY(const auto ranges, parse_escape());
      if (ranges.size() != 1 || ranges[0].first != ranges[0].last) {
        return refuse(ErrorCode::kInvalid, "an escape that is not one character");
      }
      return ranges[0].first;
    }
    const Utf8Step step = decode_utf8(text_, at_);
    if (step.kind != Utf8Step::Kind::kCharacter)
      return refuse(ErrorCode::kInvalid, "invalid UTF-8");
    at_ += step.length;
    return step.code;
  }

  Result<std::vector<CharacterRange>> parse_escape() {
    auto escape = take_character_escape(text_, at_);
    if (!escape) return refuse(escape.error().code, escape.error().message);
    if (escape->kind == CharacterEscape::Kind::kWordBoundary) {
      return std::vector<CharacterRange>{{'\b', '\b'}};
    }
    if (escape->kind != CharacterEscape::Kind::kCharacters) {
      return refuse(ErrorCode::kInvalid, "an unknown escape");
    }
    return escape->ranges;
  }

  Result<NodeId> parse_literal(char quote) {
    ++at_;
    std::string bytes;
    while (peek() != quote) {
      if (at_ >= text_.size() || peek() == '\n') {
        return refuse(ErrorCode::kInvalid, "a literal without its end");
      }
      TRY(const char32_t code, parse_character());
      append_utf8(bytes, code);
    }
    ++at_;
    return grammar_.text(bytes);
  }

  // After '['.
  Result<NodeId> parse_class() {
    const bool negated = take("^");
    std::vector<CharacterRange> ranges;
    while (!take("]")) {
      if (at_ >= text_.size() || peek() == '\n') {
        return refuse(ErrorCode::kInvalid, "a class without its ']'");
      }
      if (peek() == '\\') {
        TRY(const auto set, parse_escape());
        if (set.size() != 1 || set[0].first != set[0].last) {
          ranges.insert(ranges.end(), set.begin(), set.end());
          continue;
        }
        TRY_DO(add_range(set[0].first, ranges));
        continue;
      }
      TRY(const char32_t first, parse_character());
      TRY_DO(add_range(first, ranges));
    }
    ranges = normalized(std::move(ranges));
    return grammar_.characters(negated ? complement(ranges) : ranges);
  }

  Result<void> add_range(char32_t first, std::vector<CharacterRange>& ranges) {
    char32_t last = first;
    if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
      ++at_;
      TRY(last, parse_character());
      if (last < first) return refuse(ErrorCode::kInvalid, "a range out of order");
    }
    ranges.push_back({first, last});
    return {};
  }

  std::string_view text_;
  Grammar& grammar_;
  std::size_t at_ = 0;
  std::unordered_map<std::string, RuleId> rules_;
};

}  // namespace

Result<Grammar> parse_ebnf(std::string_view text, std::string_view root) {
  if (text.size() > kMaxText) {
    return fail(ErrorCode::kTooLarge, "grammar: {} bytes, limit {}", text.size(), kMaxText);
  }
  Grammar grammar;
  TRY_DO(EbnfParser(text, grammar).parse(root));
  return grammar;
}

}  // namespace saccade::grammar
