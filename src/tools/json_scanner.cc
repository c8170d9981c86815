#include "tools/json_scanner.h"

namespace saccade::tools {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

Step JsonScanner::put(char byte) {
  switch (at_) {
    case At::kString:
    case At::kEscape:
    case At::kHex:
      return put_string(byte);
    case At::kLiteral:
      if (byte != literal_.front()) return Step::kBad;
      literal_.remove_prefix(1);
      return literal_.empty() ? value_complete() : Step::kMore;
    case At::kMinus:
    case At::kZero:
    case At::kInteger:
    case At::kPoint:
    case At::kFraction:
    case At::kExponent:
    case At::kExponentSign:
    case At::kExponentDigits:
      return put_number(byte);
    default:
      break;
  }
  if (is_space(byte)) return Step::kMore;
  switch (at_) {
    case At::kFirstElement:
      return byte == ']' ? after_value(byte) : put_value(byte);
    case At::kFirstKey:
      if (byte == '}') return after_value(byte);
      [[fallthrough]];
    case At::kKey:
      if (byte != '"') return Step::kBad;
      in_key_ = true;
      at_ = At::kString;
      return Step::kMore;
    case At::kColon:
      if (byte != ':') return Step::kBad;
      at_ = At::kValue;
      return Step::kMore;
    case At::kAfterValue:
      return after_value(byte);
    default:
      return put_value(byte);
  }
}

Step JsonScanner::open(char bracket) {
  if (open_.size() == static_cast<std::size_t>(max_depth_)) return Step::kBad;
  open_.push_back(bracket);
  at_ = bracket == '{' ? At::kFirstKey : At::kFirstElement;
  return Step::kMore;
}

Step JsonScanner::put_value(char byte) {
  const auto literal = [&](std::string_view rest) {
    literal_ = rest;
    at_ = At::kLiteral;
    return Step::kMore;
  };
  switch (byte) {
    case '{':
    case '[':
      return open(byte);
    case '"':
      at_ = At::kString;
      return Step::kMore;
    case 't':
      return literal("rue");
    case 'f':
      return literal("alse");
    case 'n':
      return literal("ull");
    case '-':
      at_ = At::kMinus;
      return Step::kMore;
    case '0':
      at_ = At::kZero;
      return Step::kMore;
    default:
      if (!is_digit(byte)) return Step::kBad;
      at_ = At::kInteger;
      return Step::kMore;
  }
}

Step JsonScanner::put_string(char byte) {
  if (at_ == At::kHex) {
    if (!is_hex(byte)) return Step::kBad;
    if (--hex_digits_ == 0) at_ = At::kString;
    return Step::kMore;
  }
  if (at_ == At::kEscape) {
    if (std::string_view("\"\\/bfnrtu").find(byte) == std::string_view::npos) return Step::kBad;
    at_ = byte == 'u' ? At::kHex : At::kString;
    hex_digits_ = 4;
    return Step::kMore;
  }
  if (static_cast<unsigned char>(byte) < 0x20) return Step::kBad;
  if (byte == '\\') {
    at_ = At::kEscape;
  } else if (byte == '"') {
    if (!in_key_) return value_complete();
    in_key_ = false;
    at_ = At::kColon;
  }
  return Step::kMore;
}

Step JsonScanner::put_number(char byte) {
  const auto go = [&](At at) {
    at_ = at;
    return Step::kMore;
  };
  const bool digit = is_digit(byte);
  const bool exponent = byte == 'e' || byte == 'E';
  switch (at_) {
    case At::kMinus:
      return digit ? go(byte == '0' ? At::kZero : At::kInteger) : Step::kBad;
    case At::kPoint:
      return digit ? go(At::kFraction) : Step::kBad;
    case At::kExponent:
      if (byte == '+' || byte == '-') return go(At::kExponentSign);
      return digit ? go(At::kExponentDigits) : Step::kBad;
    case At::kExponentSign:
      return digit ? go(At::kExponentDigits) : Step::kBad;
    case At::kZero:
    case At::kInteger:
      if (digit) return at_ == At::kZero ? Step::kBad : Step::kMore;
      if (byte == '.') return go(At::kPoint);
      if (exponent) return go(At::kExponent);
      break;
    case At::kFraction:
      if (digit) return Step::kMore;
      if (exponent) return go(At::kExponent);
      break;
    default:
      if (digit) return Step::kMore;
      break;
  }
  if (value_complete() == Step::kDone) return Step::kDoneBefore;
  return put(byte);
}

Step JsonScanner::after_value(char byte) {
  if (byte == ',' && at_ == At::kAfterValue) {
    at_ = open_.back() == '{' ? At::kKey : At::kValue;
    return Step::kMore;
  }
  if (byte != (open_.back() == '{' ? '}' : ']')) return Step::kBad;
  open_.pop_back();
  return value_complete();
}

Step JsonScanner::value_complete() {
  at_ = At::kAfterValue;
  return open_.empty() ? Step::kDone : Step::kMore;
}

}  // namespace saccade::tools
