#include "text/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>

#include "base/text/ascii.h"
#include "text/unicode/python_text.h"
#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

using ascii::is_digit;

// 99: none.
int digit_value(char c) { return ascii::hex_value(c) < 0 ? 99 : ascii::hex_value(c); }

// One newline for each of \r\n, \r and \n, and none at the very end.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}
  Result<std::vector<Token>> run();

 private:
  template <typename... Args>
  tl::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kInvalid, "line {}: {}", line_,
                fmt::format(format, std::forward<Args>(args)...));
  }
  bool at(std::string_view text) const { return rest().starts_with(text); }
  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  void add(TokenKind kind, std::string text = {}) {
    tokens_.push_back({kind, line_, std::move(text), 0, 0});
  }
  void advance(std::size_t bytes);
  void skip_space();
  char next_byte(std::size_t ahead) const {
    return position_ + ahead < source_.size() ? source_[position_ + ahead] : '\0';
  }

  void add_data(std::size_t end, char sign, bool is_variable);
  Result<void> comment();
  Result<bool> raw_block();
  bool find_end_of_raw(std::size_t& begin, std::size_t& after, char& sign, char& end_sign) const;
  Result<void> tag(std::string_view close, TokenKind end_kind);
  bool tag_end(std::string_view close);
  void after_end(char sign);
  Result<void> token();
  bool number_is_float(std::size_t& length) const;
  std::size_t digit_groups(std::size_t ahead) const;
  Result<void> integer();
  Result<void> string();
  Result<void> escape(std::string_view body, std::size_t& i, std::string& out) const;
  Result<void> name();
  Result<void> operator_token();

  const std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // what was last consumed ended a line
  std::vector<char> open_;     // closing brackets that are awaited
  std::vector<Token> tokens_;
};

void Lexer::advance(std::size_t bytes) {
  const std::string_view eaten = rest().substr(0, bytes);
  line_ += static_cast<int>(std::count(eaten.begin(), eaten.end(), '\n'));
  if (!eaten.empty()) line_starting_ = eaten.back() == '\n';
  position_ += eaten.size();
}

void Lexer::skip_space() {
  const std::string_view stripped = strip(rest(), std::nullopt, true, false);
  advance(rest().size() - stripped.size());
}

// The text before a tag: cut back by "-", or to the start of the line when only white space stands
// between it and the tag. `sign` is the tag's - or +.
void Lexer::add_data(std::size_t end, char sign, bool is_variable) {
  std::string_view text = std::string_view(source_).substr(position_, end - position_);
  if (sign == '-') {
    text = strip(text, std::nullopt, false, true);
  } else if (sign != '+' && !is_variable) {
    const std::size_t newline = text.rfind('\n');
    const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    const std::string_view indent = text.substr(line_start);
    const bool on_own_line = line_start > 0 || line_starting_;
    if (on_own_line && strip(indent, std::nullopt, true, false).empty()) {
      text = text.substr(0, line_start);
    }
  }
  if (!text.empty()) add(TokenKind::kData, std::string(text));
  advance(end - position_);
}

// What follows a tag's end: all white space after "-", else (blocks and comments) one newline.
void Lexer::after_end(char sign) {
  if (sign == '-') {
    skip_space();
  } else if (sign != '+' && next_byte(0) == '\n') {
    advance(1);
  }
}

Result<void> Lexer::comment() {
  if (position_ == source_.size()) return {};  // the reference lets a last "{#" pass
  const std::size_t end = source_.find("#}", position_);
  if (end == std::string::npos) return wrong("Missing end of comment tag");
  const char sign = end > position_ ? source_[end - 1] : '\0';
  advance(end + 2 - position_);
  after_end(sign);
  return {};
}

bool Lexer::find_end_of_raw(std::size_t& begin, std::size_t& after, char& sign,
                            char& end_sign) const {
  const std::string_view source = source_;
  for (begin = source.find("{%", position_); begin != std::string_view::npos;
       begin = source.find("{%", begin + 2)) {
    std::size_t i = begin + 2;
    sign = i < source.size() ? source[i] : '\0';
    if (sign == '-' || sign == '+') ++i;
    std::string_view tail = strip(source.substr(i), std::nullopt, true, false);
    if (!tail.starts_with("endraw")) continue;
    tail = strip(tail.substr(6), std::nullopt, true, false);
    end_sign = tail.empty() ? '\0' : tail[0];
    if (end_sign == '-' || end_sign == '+') tail.remove_prefix(1);
    if (!tail.starts_with("%}")) continue;
    after = source.size() - tail.size() + 2;
    return true;
  }
  return false;
}

// {% raw %}...{% endraw %}, of which the opening tag starts at position_. False: it is another tag.
Result<bool> Lexer::raw_block() {
  std::string_view head = rest().substr(2);
  if (head.starts_with('-') || head.starts_with('+')) head.remove_prefix(1);
  head = strip(head, std::nullopt, true, false);
  if (!head.starts_with("raw")) return false;
  head = strip(head.substr(3), std::nullopt, true, false);
  const bool strip_after = head.starts_with("-%}");
  if (!strip_after && !head.starts_with("%}")) return false;
  head.remove_prefix(strip_after ? 3 : 2);
  advance(rest().size() - head.size());
  if (strip_after) skip_space();

  if (position_ == source_.size()) return true;  // as with comments
  std::size_t begin = 0, after = 0;
  char sign = 0, end_sign = 0;
  if (!find_end_of_raw(begin, after, sign, end_sign)) return wrong("Missing end of raw directive");
  add_data(begin, sign, false);
  advance(after - position_);
  after_end(end_sign);
  return true;
}

// The end of a tag at position_, unless a bracket is still open: then `}}` is two brackets.
bool Lexer::tag_end(std::string_view close) {
  if (!open_.empty()) return false;
  const bool block = close == "%}";
  const bool signed_end = (next_byte(0) == '-' || (block && next_byte(0) == '+')) &&
                          rest().substr(1).starts_with(close);
  if (!signed_end && !at(close)) return false;
  const char sign = signed_end ? next_byte(0) : '\0';
  add(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
  advance(close.size() + (signed_end ? 1 : 0));
  if (block || sign == '-') after_end(sign);
  return true;
}

Result<void> Lexer::tag(std::string_view close, TokenKind begin_kind) {
  add(begin_kind);
  advance(next_byte(2) == '-' || next_byte(2) == '+' ? 3 : 2);
  while (!tag_end(close)) {
    skip_space();
    if (tag_end(close)) break;
    if (position_ >= source_.size()) return {};  // the parser says what is missing
    TRY_DO(token());
  }
  return {};
}

// Digits with single underscores between them, from `ahead` on: their end, or `ahead` itself.
std::size_t Lexer::digit_groups(std::size_t ahead) const {
  std::size_t end = ahead;
  while (is_digit(next_byte(end)) ||
         (end > ahead && next_byte(end) == '_' && is_digit(next_byte(end + 1)))) {
    ++end;
  }
  return end;
}

bool Lexer::number_is_float(std::size_t& length) const {
  if (position_ > 0 && source_[position_ - 1] == '.') return false;
  const std::size_t whole = digit_groups(0);
  if (whole == 0) return false;
  length = whole;
  bool is_float = false;
  if (next_byte(whole) == '.') {
    const std::size_t fraction = digit_groups(whole + 1);
    if (fraction > whole + 1) {
      length = fraction;
      is_float = true;
    }
  }
  if ((next_byte(length) | 0x20) == 'e') {
    const char sign = next_byte(length + 1);
    const std::size_t digits = length + (sign == '+' || sign == '-' ? 2 : 1);
    const std::size_t exponent = digit_groups(digits);
    if (exponent > digits) {
      length = exponent;
      is_float = true;
    }
  }
  return is_float;
}

Result<void> Lexer::integer() {
  int base = 10;
  std::size_t length = 0;
  if (next_byte(0) == '0') {
    const char mark = static_cast<char>(next_byte(1) | 0x20);
    const int wanted = mark == 'b' ? 2 : mark == 'o' ? 8 : mark == 'x' ? 16 : 10;
    const std::size_t first = next_byte(2) == '_' ? 3 : 2;
    if (wanted != 10 && digit_value(next_byte(first)) < wanted) {
      base = wanted;
      length = 2;
    }
  }
  const bool zero = base == 10 && next_byte(0) == '0';
  const auto fits = [&](char c) { return zero ? c == '0' : digit_value(c) < base; };
  Integer number = 0;
  while (fits(next_byte(length)) ||
         (length > 0 && next_byte(length) == '_' && fits(next_byte(length + 1)))) {
    const char c = next_byte(length++);
    if (c == '_') continue;
    if (number > (kIntegerMax - 15) / base) return wrong("integer literal beyond 127 bits");
    number = number * base + digit_value(c);
  }
  tokens_.push_back({TokenKind::kInteger, line_, {}, number, 0});
  advance(length);
  return {};
}

// Undoes the escape at body[i] == '\\'; leaves `i` on its last byte.
Result<void> Lexer::escape(std::string_view body, std::size_t& i, std::string& out) const {
  const char kind = body[++i];
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  if (const std::size_t letter = kLetters.find(kind); letter != std::string_view::npos) {
    out += kMeanings[letter];
    return {};
  }
  if (kind == '\n') return {};
  char32_t code = 0;
  if (kind >= '0' && kind <= '7') {
    std::size_t end = i;
    while (end < body.size() && end < i + 3 && body[end] >= '0' && body[end] <= '7') {
      code = code * 8 + static_cast<char32_t>(body[end++] - '0');
    }
    i = end - 1;
    append_utf8(out, code);
    return {};
  }
  const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (kind == 'N') return wrong("\\N escapes are not done");
  if (digits == 0) {
    out += '\\';
    const auto lead = static_cast<unsigned char>(kind);
    if (lead < 0x80) {
      out += kind;
      return {};
    }
    // As the reference, which escapes what is not ASCII before it undoes escapes.
    std::size_t next = i;
    code = next_character(body, next);
    i = next - 1;
    out += code < 0x100     ? fmt::format("x{:02x}", static_cast<unsigned>(code))
           : code < 0x10000 ? fmt::format("u{:04x}", static_cast<unsigned>(code))
                            : fmt::format("U{:08x}", static_cast<unsigned>(code));
    return {};
  }
  for (std::size_t d = 0; d < digits; ++d) {
    const int value = i + 1 < body.size() ? digit_value(body[i + 1]) : 99;
    if (value > 15) return wrong("truncated \\{} escape", kind);
    code = code * 16 + static_cast<char32_t>(value);
    ++i;
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return wrong("escape of U+{:X}, which is no character", static_cast<unsigned>(code));
  }
  append_utf8(out, code);
  return {};
}

Result<void> Lexer::string() {
  const char quote = next_byte(0);
  std::size_t end = 1;
  while (position_ + end < source_.size() && next_byte(end) != quote) {
    end += next_byte(end) == '\\' ? 2 : 1;
  }
  if (position_ + end >= source_.size()) return wrong("unexpected char {}", quote);
  const std::string_view body = rest().substr(1, end - 1);
  std::string text;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      text += body[i];
      continue;
    }
    TRY_DO(escape(body, i, text));
  }
  add(TokenKind::kString, std::move(text));
  advance(end + 1);
  return {};
}

Result<void> Lexer::name() {
  std::size_t end = position_;
  while (end < source_.size()) {
    std::size_t next = end;
    if (!is_identifier_part(next_character(source_, next))) break;
    end = next;
  }
  const std::string text(rest().substr(0, end - position_));
  add(TokenKind::kName, text);
  advance(text.size());
  return {};
}

Result<void> Lexer::operator_token() {
  for (const std::string_view text : kOperators) {
    if (!at(text)) continue;
    const char c = text[0];
    if (text.size() == 1 && (c == '(' || c == '[' || c == '{')) {
      open_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (text.size() == 1 && (c == ')' || c == ']' || c == '}')) {
      if (open_.empty()) return wrong("unexpected '{}'", c);
      if (open_.back() != c) return wrong("unexpected '{}', expected '{}'", c, open_.back());
      open_.pop_back();
    }
    add(TokenKind::kOperator, std::string(text));
    advance(text.size());
    return {};
  }
  std::size_t end = position_;
  next_character(source_, end);
  return wrong("unexpected char '{}'", source_.substr(position_, end - position_));
}

Result<void> Lexer::token() {
  std::size_t length = 0;
  if (number_is_float(length)) {
    tokens_.push_back({TokenKind::kFloat, line_, {}, 0, *parse_float(rest().substr(0, length))});
    advance(length);
    return {};
  }
  const char c = next_byte(0);
  if (is_digit(c)) return integer();
  if (c == '"' || c == '\'') return string();
  std::size_t after = position_;
  if (is_identifier_start(next_character(source_, after))) return name();
  return operator_token();
}

Result<std::vector<Token>> Lexer::run() {
  while (position_ < source_.size()) {
    // The next "{{", "{%" or "{#".
    std::size_t begin = source_.find('{', position_);
    while (begin != std::string::npos &&
           (begin + 1 >= source_.size() ||
            std::string_view("{%#").find(source_[begin + 1]) == std::string_view::npos)) {
      begin = source_.find('{', begin + 1);
    }
    if (begin == std::string::npos) {
      add(TokenKind::kData, source_.substr(position_));
      advance(source_.size() - position_);
      break;
    }
    const char opener = source_[begin + 1];
    add_data(begin, begin + 2 < source_.size() ? source_[begin + 2] : '\0', opener == '{');
    if (opener == '#') {
      advance(next_byte(2) == '-' || next_byte(2) == '+' ? 3 : 2);
      TRY_DO(comment());
    } else if (opener == '{') {
      TRY_DO(tag("}}", TokenKind::kVariableBegin));
    } else {
      TRY(const bool raw, raw_block());
      if (!raw) TRY_DO(tag("%}", TokenKind::kBlockBegin));
    }
  }
  add(TokenKind::kEnd);
  return std::move(tokens_);
}

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kEnd:
      return "end of template";
    default:
      return token.text;
  }
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (!is_valid_utf8(source)) return fail(ErrorCode::kInvalid, "the template is not UTF-8");
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace saccade::jinja
