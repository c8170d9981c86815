// Template source to tokens, white space control included: trim_blocks and lstrip_blocks are on, as
// chat templates expect.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

enum class TokenKind : std::uint8_t {
  kData,  // text between tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;     // data, name, operator as written, string with its escapes undone
  Integer integer = 0;  // kInteger
  double real = 0;      // kFloat
};

// What the token is, for messages.
std::string describe(const Token& token);

// Ends with a kEnd token. kInvalid names the line.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace saccade::jinja
