#include "text/patterns/oniguruma.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text/ascii.h"
#include "text/patterns/character_properties.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

constexpr int kMaxClassDepth = 16;
constexpr std::size_t kMaxPatternBytes = 64 * 1024;
constexpr int kMaxRepeat = 65535;  // PCRE2's own limit

// Members of classes, without the brackets.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kHexDigit = "0-9A-Fa-f";
// Oniguruma's \w takes these too where it stands outside a class.
constexpr std::string_view kLatin1Numbers = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

// One character of a set: members of a bracket, plus single-character expressions beside them.
struct CharacterSet {
  std::string members;                    // inside [ ]
  std::vector<std::string> alternatives;  // each matches exactly one character

  bool empty() const { return members.empty() && alternatives.empty(); }

  std::string expression(bool negated) const {
    if (alternatives.empty()) return (negated ? "[^" : "[") + members + "]";
    std::string either = members.empty() ? "" : "[" + members + "]|";
    for (std::size_t i = 0; i < alternatives.size(); ++i)
      either += (i == 0 ? "" : "|") + alternatives[i];
    return negated ? "(?:(?!" + either + ")(?s:.))" : "(?:" + either + ")";
  }
};

CharacterSet set_of(std::string_view members) { return {std::string(members), {}}; }

CharacterSet complement(std::string_view members) {
  return {"", {"[^" + std::string(members) + "]"}};
}

std::optional<unsigned> code_point(std::string_view digits) {
  unsigned value = 0;
  if (digits.empty() || digits.size() > 6) return std::nullopt;
  for (const char c : digits) {
    const int digit = ascii::hex_value(c);
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit);
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return std::nullopt;
  return value;
}

class Translator {
 public:
  Translator(std::string_view pattern, bool newer) : pattern_(pattern), properties_{newer} {}

  Result<std::string> run() {
    while (!done()) TRY_DO(step());
    if (groups_.size() != 1) return fail(ErrorCode::kInvalid, "pattern: a group is not closed");
    close_options();
    return std::move(out_);
  }

 private:
  struct Group {
    std::size_t start = 0;  // where its text begins in out_
    int option_groups = 0;  // "(?i:" opened by a bare (?i) inside it
  };

  bool done() const { return at_ == pattern_.size(); }
  bool starts(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!starts(text)) return false;
    at_ += text.size();
    return true;
  }
  tl::unexpected<Error> unsupported(std::string_view what) const {
    return fail(ErrorCode::kUnsupported, "pattern: {} at byte {} is not supported", what, at_);
  }
  tl::unexpected<Error> invalid(std::string_view what) const {
    return fail(ErrorCode::kInvalid, "pattern: {} at byte {}", what, at_);
  }

  void atom(std::string_view text) {
    atom_start_ = out_.size();
    atom_repeated_ = false;
    out_ += text;
  }

  Result<void> step() {
    const char c = pattern_[at_];
    switch (c) {
      case '\\':
        return escape();
      case '[': {
        TRY(const std::string set, bracket(0));
        atom(set);
        return {};
      }
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        ++at_;
        out_ += '|';
        atom_start_.reset();
        return {};
      case '*':
      case '+':
      case '?':
        return repeat();
      case '{':
        if (interval_length() > 0) return repeat();
        ++at_;
        atom("\\{");
        return {};
      case '^':
      case '$':
        ++at_;
        out_ += c;
        atom_start_.reset();
        return {};
      case '.':
        ++at_;
        atom(".");
        return {};
      default: {
        const std::size_t length = character_bytes(c);
        const bool plain = length > 1 || ascii::is_digit(c) || ascii::is_letter(c);
        atom((plain ? "" : "\\") + std::string(pattern_.substr(at_, length)));
        at_ += length;
        return {};
      }
    }
  }

  // A backslash outside brackets: anchors here, all else is a set of characters.
  Result<void> escape() {
    if (at_ + 1 == pattern_.size()) return invalid("nothing follows the last backslash");
    const char kind = pattern_[at_ + 1];
    if (kind == 'b' || kind == 'B') {
      at_ += 2;
      const std::string word = "[" + properties_.word() + std::string(kLatin1Numbers) + "]";
      const std::string yes = kind == 'b' ? "!" : "=";  // what must follow a word character
      const std::string no = kind == 'b' ? "=" : "!";
      out_ += "(?:(?<=" + word + ")(?" + yes + word + ")|(?<!" + word + ")(?" + no + word + "))";
      atom_start_.reset();
      return {};
    }
    if (kind == 'A' || kind == 'z' || kind == 'Z') {
      at_ += 2;
      out_ += {'\\', kind};
      atom_start_.reset();
      return {};
    }
    if (kind == 'R') {
      at_ += 2;
      atom(R"((?>\x{D}\x{A}|[\x{A}-\x{D}\x{85}\x{2028}\x{2029}]))");
      return {};
    }
    if (kind == 'w' || kind == 'W') {
      at_ += 2;
      atom((kind == 'w' ? "[" : "[^") + properties_.word() + std::string(kLatin1Numbers) + "]");
      return {};
    }
    TRY(const CharacterSet set, escaped_set());
    atom(set.expression(false));
    return {};
  }

  // What a backslash stands for, inside brackets or out. Moves past it.
  Result<CharacterSet> escaped_set() {
    const char kind = pattern_[at_ + 1];
    const std::size_t begin = at_;
    at_ += 2;
    switch (kind) {
      case 's':
        return set_of(kSpace);
      case 'S':
        return complement(kSpace);
      case 'w':
        return set_of(properties_.word());
      case 'W':
        return complement(properties_.word());
      case 'd':
        return set_of(properties_.category("Nd"));
      case 'D':
        return complement(properties_.category("Nd"));
      case 'h':
        return set_of(kHexDigit);
      case 'H':
        return complement(kHexDigit);
      case 'p':
      case 'P':
        return property(kind == 'P');
      default:
        at_ = begin;
        TRY(const char32_t code, escaped_character());
        return set_of(code_escape(code));
    }
  }

  // An escape that is one character: \n, \u3042, \x{1F600}, \., ...
  Result<char32_t> escaped_character() {
    const char kind = pattern_[at_ + 1];
    const std::size_t rest = at_ + 2;
    const auto single = [&](char32_t code) {
      at_ = rest;
      return code;
    };
    switch (kind) {
      case 'n':
        return single('\n');
      case 't':
        return single('\t');
      case 'r':
        return single('\r');
      case 'f':
        return single('\f');
      case 'v':
        return single('\v');
      case 'a':
        return single('\a');
      case 'e':
        return single(0x1B);
      case 'u': {
        const auto code = code_point(pattern_.substr(rest, 4));
        if (!code || pattern_.size() < rest + 4) return invalid("\\u needs four hex digits");
        at_ = rest + 4;
        return static_cast<char32_t>(*code);
      }
      case 'x': {
        if (rest < pattern_.size() && pattern_[rest] == '{') {
          const std::size_t close = pattern_.find('}', rest);
          const auto code = close == std::string_view::npos
                                ? std::nullopt
                                : code_point(pattern_.substr(rest + 1, close - rest - 1));
          if (!code) return invalid("\\x{} needs a code point");
          at_ = close + 1;
          return static_cast<char32_t>(*code);
        }
        const auto code = code_point(pattern_.substr(rest, 2));
        if (!code || pattern_.size() < rest + 2) return invalid("\\x needs two hex digits");
        if (*code >= 0x80) return unsupported("a byte escape past \\x7F");
        at_ = rest + 2;
        return static_cast<char32_t>(*code);
      }
      default:
        break;
    }
    if (ascii::is_letter(kind) || ascii::is_digit(kind)) {
      return unsupported(fmt::format("the escape \\{}", kind));
    }
    at_ += 1;
    return next_character(pattern_, at_);
  }

  // After \p or \P: {Name} or {^Name}.
  Result<CharacterSet> property(bool negated) {
    const std::size_t close = pattern_.find('}', at_);
    if (!take("{") || close == std::string_view::npos) return invalid("\\p needs {a name}");
    if (take("^")) negated = !negated;
    const std::string_view name = pattern_.substr(at_, close - at_);
    TRY(const std::string members, property_members(name));
    at_ = close + 1;
    const std::string newer =
        members == "\\p{C}" || members == "\\p{Cn}" ? properties_.newer_characters("") : "";
    if (newer.empty()) return negated ? complement(members) : set_of(members);
    // What this PCRE2 takes for unassigned.
    if (negated) return CharacterSet{"", {"[^" + members + "]", "[" + newer + "]"}};
    return CharacterSet{"", {"(?![" + newer + "])[" + members + "]"}};
  }

  Result<std::string> property_members(std::string_view name) const {
    std::string folded;
    for (const char c : name) {
      if (c == ' ' || c == '_' || c == '-') continue;
      if (!ascii::is_letter(c)) return unsupported(fmt::format("the property '{}'", name));
      folded += static_cast<char>(c | 0x20);
    }
    if (auto members = properties_.named_category(folded)) return *std::move(members);
    if (folded == "space" || folded == "whitespace") return std::string(kSpace);
    if (folded == "word") return properties_.word();
    if (folded == "xdigit") return std::string(kHexDigit);
    if (folded == "alpha" || folded == "alphabetic") return properties_.alphabetic();
    if (folded == "alnum") return properties_.alphabetic() + properties_.category("Nd");
    if (folded == "upper") return R"(\p{Uppercase})" + properties_.newer_characters("Lu");
    if (folded == "lower") return R"(\p{Lowercase})" + properties_.newer_characters("Ll");
    if (folded == "any") return R"(\x{0}-\x{10FFFF})";
    if (folded == "han") return R"(\p{sc:Han}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
    for (const std::string_view other : {"graph", "print", "cntrl", "blank", "ascii"}) {
      if (folded == other) return unsupported(fmt::format("the property '{}'", name));
    }
    return "\\p{sc:" + folded + "}";  // a script; PCRE2 refuses names it does not know
  }

  // A bracketed class from '[' to its ']', as an expression for one character.
  Result<std::string> bracket(int depth) {
    if (depth == kMaxClassDepth) return unsupported("a class this deep");
    ++at_;
    const bool negated = take("^");
    std::vector<CharacterSet> parts(1);  // what && separates
    bool first = true;
    while (true) {
      if (done()) return invalid("a class is not closed");
      if (starts("]") && !first) break;
      first = false;
      if (take("&&")) {
        parts.emplace_back();
        continue;
      }
      TRY_DO(class_item(parts.back(), depth));
    }
    ++at_;
    for (const CharacterSet& part : parts) {
      if (part.empty()) return invalid("an empty class ends");
    }
    if (parts.size() == 1) return parts[0].expression(negated);
    std::string both;
    for (std::size_t i = 1; i < parts.size(); ++i) both += "(?=" + parts[i].expression(false) + ")";
    both += parts[0].expression(false);
    return negated ? "(?:(?!" + both + ")(?s:.))" : "(?:" + both + ")";
  }

  // One member of a class: a nested class, a POSIX bracket, an escape, a character or a range.
  Result<void> class_item(CharacterSet& into, int depth) {
    if (starts("[:")) return posix_bracket(into);
    if (starts("[")) {
      TRY(std::string nested, bracket(depth + 1));
      into.alternatives.push_back(std::move(nested));
      return {};
    }
    const bool escaped = starts("\\");
    if (escaped && at_ + 1 == pattern_.size()) return invalid("a class is not closed");
    constexpr std::string_view kSets = "sSwWdDhHpP";
    if (escaped && kSets.find(pattern_[at_ + 1]) != std::string_view::npos) {
      TRY(CharacterSet set, escaped_set());
      into.members += set.members;
      for (auto& alternative : set.alternatives)
        into.alternatives.push_back(std::move(alternative));
      return {};
    }
    TRY(const char32_t low, class_character());
    into.members += code_escape(low);
    const bool range = starts("-") && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']' &&
                       pattern_[at_ + 1] != '[';
    if (!range) return {};
    if (pattern_[at_ + 1] == '\\' && at_ + 2 < pattern_.size() &&
        kSets.find(pattern_[at_ + 2]) != std::string_view::npos) {
      return {};  // "a-\w": the hyphen is itself
    }
    ++at_;
    TRY(const char32_t high, class_character());
    if (high < low) return invalid("a class range runs backwards");
    into.members += "-" + code_escape(high);
    return {};
  }

  Result<char32_t> class_character() {
    if (!starts("\\")) return next_character(pattern_, at_);
    if (at_ + 1 == pattern_.size()) return invalid("a class is not closed");
    if (pattern_[at_ + 1] == 'b') {
      at_ += 2;
      return char32_t{8};
    }
    return escaped_character();
  }

  Result<void> posix_bracket(CharacterSet& into) {
    const std::size_t close = pattern_.find(":]", at_);
    if (close == std::string_view::npos) return invalid("[: is not closed");
    std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
    const bool negated = name.starts_with("^");
    if (negated) name.remove_prefix(1);
    TRY(std::string members, property_members(name));
    if (name == "punct") members += properties_.category("S");  // not so as \p{Punct}
    at_ = close + 2;
    if (negated) {
      into.alternatives.push_back("[^" + members + "]");
    } else {
      into.members += members;
    }
    return {};
  }

  Result<void> open_group() {
    const std::size_t start = out_.size();
    if (take("(?#")) {
      const std::size_t close = pattern_.find(')', at_);
      if (close == std::string_view::npos) return invalid("a comment is not closed");
      at_ = close + 1;
      return {};
    }
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (!take(kind)) continue;
      out_ += kind;
      groups_.push_back({start, 0});
      atom_start_.reset();
      return {};
    }
    if (take("(?")) return option_group(start);
    if (starts("(*")) return unsupported("a callout");
    ++at_;
    out_ += "(?:";
    groups_.push_back({start, 0});
    atom_start_.reset();
    return {};
  }

  // After "(?": flags, as "i-m:" around a group or "i)" for the rest of the enclosing one.
  Result<void> option_group(std::size_t start) {
    std::string flags;
    for (; !done() && (pattern_[at_] == 'i' || pattern_[at_] == 'm' || pattern_[at_] == '-'); ++at_)
      flags += pattern_[at_] == 'm' ? 's' : pattern_[at_];
    if (std::count(flags.begin(), flags.end(), '-') > 1) return invalid("two minus signs in flags");
    const bool whole_group = take(":");
    if (!whole_group && !take(")")) return unsupported("this kind of group");
    out_ += "(?" + flags + ":";
    if (whole_group) {
      groups_.push_back({start, 0});
    } else {
      ++groups_.back().option_groups;
    }
    atom_start_.reset();
    return {};
  }

  void close_options() { out_.append(static_cast<std::size_t>(groups_.back().option_groups), ')'); }

  Result<void> close_group() {
    if (groups_.size() == 1) return invalid("a group closes that was not opened");
    ++at_;
    close_options();
    out_ += ')';
    atom_start_ = groups_.back().start;
    atom_repeated_ = false;
    groups_.pop_back();
    return {};
  }

  // Length of {n}, {n,}, {,m} or {n,m} here; 0 when the brace is only a brace.
  std::size_t interval_length() const {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < pattern_.size() && ascii::is_digit(pattern_[end])) ++end;
      return end - begin;
    };
    const std::size_t low = digits();
    std::size_t high = 0;
    if (end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      high = digits();
    }
    const bool closed = end < pattern_.size() && pattern_[end] == '}';
    return closed && low + high > 0 ? end + 1 - at_ : 0;
  }

  Result<void> repeat() {
    if (!atom_start_) return invalid("a repetition has nothing to repeat");
    if (atom_repeated_) {  // "(a+)*" written without its group
      out_.insert(*atom_start_, "(?:");
      out_ += ')';
    }
    atom_repeated_ = true;
    if (pattern_[at_] != '{') {
      out_ += pattern_[at_++];
      if (starts("?") || starts("+")) out_ += pattern_[at_++];
      return {};
    }
    const std::string_view interval = pattern_.substr(at_, interval_length());
    const std::size_t comma = interval.find(',');
    const auto bound = [&](std::string_view digits, int absent) {
      if (digits.empty()) return absent;
      int value = 0;
      for (const char c : digits) value = std::min(value * 10 + (c - '0'), kMaxRepeat + 1);
      return value;
    };
    const std::string_view inside = interval.substr(1, interval.size() - 2);
    const int low = bound(inside.substr(0, std::min(comma - 1, inside.size())), 0);
    const int high =
        comma == std::string_view::npos ? low : bound(inside.substr(comma), kMaxRepeat + 2);
    if (low > kMaxRepeat || high == kMaxRepeat + 1) return unsupported("a repetition this large");
    if (high < low) return unsupported("a repetition with its bounds swapped");
    at_ += interval.size();
    out_ += high > kMaxRepeat ? fmt::format("{{{},}}", low) : fmt::format("{{{},{}}}", low, high);
    if (starts("?")) {
      if (comma == std::string_view::npos) return unsupported("a lazy {n}");
      ++at_;
      out_ += '?';
    }
    return {};
  }

  std::string_view pattern_;
  CharacterProperties properties_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<Group> groups_ = std::vector<Group>(1);
  std::optional<std::size_t> atom_start_;  // what a repetition would apply to
  bool atom_repeated_ = false;
};

}  // namespace

Result<std::string> pcre2_from_oniguruma(std::string_view pattern, bool newer_characters) {
  if (pattern.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kTooLarge, "pattern: {} bytes, limit {}", pattern.size(),
                kMaxPatternBytes);
  }
  if (!is_valid_utf8(pattern)) return fail(ErrorCode::kInvalid, "pattern: not valid UTF-8");
  return Translator(pattern, newer_characters).run();
}

}  // namespace saccade
