#include "grammar/frontends/character_escape.h"

#include "base/text/ascii.h"
#include "text/unicode/unicode.h"

namespace saccade::grammar {
namespace {

const std::vector<CharacterRange> kDigits = {{'0', '9'}};
const std::vector<CharacterRange> kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CharacterRange> kSpace = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

constexpr std::string_view kControls = "nrtfvae0";
constexpr char32_t kControlCodes[] = {'\n', '\r', '\t', '\f', '\v', '\a', 0x1B, 0};

// `digits` of them exactly; nothing is taken when there are not so many.
Result<char32_t> take_hex(std::string_view text, std::size_t& at, std::size_t digits) {
  char32_t code = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int digit = at + i < text.size() ? ascii::hex_value(text[at + i]) : -1;
    if (digit < 0) {
      return fail(ErrorCode::kInvalid, "an escape wants {} hexadecimal digits at byte {}", digits,
                  at);
    }
    code = code * 16 + static_cast<char32_t>(digit);
  }
  at += digits;
  return code;
}

Result<char32_t> take_unicode(std::string_view text, std::size_t& at) {
  char32_t code = 0;
  if (at < text.size() && text[at] == '{') {
    const std::size_t end = text.find('}', at);
    const std::size_t digits = end == std::string_view::npos ? 0 : end - at - 1;
    if (digits < 1 || digits > 6) {
      return fail(ErrorCode::kInvalid, "\\u{{...}} wants 1 to 6 digits at byte {}", at);
    }
    ++at;
    TRY(code, take_hex(text, at, digits));
    ++at;
    return code;
  }
  TRY(code, take_hex(text, at, 4));
  const bool high = code >= 0xD800 && code <= 0xDBFF;
  if (high && text.substr(at).starts_with("\\u")) {
    std::size_t next = at + 2;
    TRY(const char32_t low, take_hex(text, next, 4));
    if (low >= 0xDC00 && low <= 0xDFFF) {
      at = next;
      return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  return code;
}

CharacterEscape one(char32_t code) {
  return {CharacterEscape::Kind::kCharacters, normalized({{code, code}})};
}

}  // namespace

Result<CharacterEscape> take_character_escape(std::string_view text, std::size_t& at) {
  const std::size_t start = at++;
  if (at >= text.size()) return fail(ErrorCode::kInvalid, "a backslash at the end");
  const char letter = text[at];
  if (static_cast<unsigned char>(letter) >= 0x80) {
    const Utf8Step step = decode_utf8(text, at);
    if (step.kind != Utf8Step::Kind::kCharacter) {
      return fail(ErrorCode::kInvalid, "invalid UTF-8 at byte {}", at);
    }
    at += step.length;
    return one(step.code);
  }
  ++at;
  if (const auto found = kControls.find(letter); found != std::string_view::npos)
    return one(kControlCodes[found]);
  CharacterEscape set;
  char32_t code = 0;
  switch (letter) {
    case 'd':
      set.ranges = kDigits;
      return set;
    case 'D':
      set.ranges = complement(kDigits);
      return set;
    case 'w':
      set.ranges = kWord;
      return set;
    case 'W':
      set.ranges = complement(kWord);
      return set;
    case 's':
      set.ranges = kSpace;
      return set;
    case 'S':
      set.ranges = complement(kSpace);
      return set;
    case 'x': {
      TRY(code, take_hex(text, at, 2));
      return one(code);
    }
    case 'u': {
      TRY(code, take_unicode(text, at));
      return one(code);
    }
    case 'U': {
      TRY(code, take_hex(text, at, 8));
      return one(code);
    }
    case 'b':
    case 'B':
      set.kind = CharacterEscape::Kind::kWordBoundary;
      return set;
    default:
      break;
  }
  if ((letter >= '1' && letter <= '9') || letter == 'k') {
    set.kind = CharacterEscape::Kind::kBackReference;
    return set;
  }
  const bool alphanumeric = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
  if (alphanumeric) {
    return fail(ErrorCode::kUnsupported, "the escape \\{} at byte {}", letter, start);
  }
  return one(static_cast<unsigned char>(letter));
}

}  // namespace saccade::grammar
