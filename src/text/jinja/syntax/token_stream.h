// The parser's view of the tokens: one at a time, with a look ahead.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/syntax/lexer.h"

namespace saccade::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  // Stays at the end once there.
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_name(std::string_view name) const { return matches(current(), TokenKind::kName, name); }
  bool is_operator(std::string_view text) const {
    return matches(current(), TokenKind::kOperator, text);
  }
  static bool matches(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool skip_name(std::string_view name) {
    const bool found = is_name(name);
    if (found) next();
    return found;
  }
  bool skip_operator(std::string_view text) {
    const bool found = is_operator(text);
    if (found) next();
    return found;
  }

  template <typename... Args>
  tl::unexpected<Error> wrong(int line, fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kInvalid, "line {}: {}", line,
                fmt::format(format, std::forward<Args>(args)...));
  }
  tl::unexpected<Error> expected(std::string_view what) const {
    if (is(TokenKind::kEnd))
      return wrong(line(), "unexpected end of template, expected '{}'.", what);
    return wrong(line(), "expected token '{}', got '{}'", what, describe(current()));
  }
  Result<Token> expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) return expected(what);
    return next();
  }
  Result<void> expect_operator(std::string_view text) {
    if (!skip_operator(text)) return expected(text);
    return {};
  }
  Result<void> expect_name(std::string_view name) {
    if (!skip_name(name)) return expected(name);
    return {};
  }

 private:
  std::vector<Token> tokens_;  // never empty: ends with kEnd
  std::size_t at_ = 0;
};

}  // namespace saccade::jinja
