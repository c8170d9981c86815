#include "text/unicode/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/unicode/unicode.h"

namespace saccade::jinja {
namespace {

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_letter(char32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

// Superscripts, subscripts and circled digits count as digits; they are not decimals.
bool is_digit(char32_t code) {
  return is_decimal(code) || code == 0xB2 || code == 0xB3 || code == 0xB9 || code == 0x2070 ||
         (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) ||
         (code >= 0x2460 && code <= 0x2468);
}

bool is_number_category(char32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool is_lower(char32_t code) { return utf8proc_islower(static_cast<utf8proc_int32_t>(code)) != 0; }
bool is_upper(char32_t code) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(code)) != 0; }
bool is_title(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t code) { return is_lower(code) || is_upper(code) || is_title(code); }

char32_t simple_upper(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
char32_t simple_lower(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

// Characters whose upper case is several characters (Unicode's SpecialCasing).
struct LongUpper {
  char32_t code;
  std::string_view upper;
};
constexpr LongUpper kLongUpper[] = {{0xDF, "SS"},
                                    {0x149, "\u02BCN"},
                                    {0x1F0, "J\u030C"},
                                    {0x390, "\u0399\u0308\u0301"},
                                    {0x3B0, "\u03A5\u0308\u0301"},
                                    {0x587, "\u0535\u0552"},
                                    {0x1E96, "H\u0331"},
                                    {0x1E97, "T\u0308"},
                                    {0x1E98, "W\u030A"},
                                    {0x1E99, "Y\u030A"},
                                    {0x1E9A, "A\u02BE"},
                                    {0x1F50, "\u03A5\u0313"},
                                    {0x1F52, "\u03A5\u0313\u0300"},
                                    {0x1F54, "\u03A5\u0313\u0301"},
                                    {0x1F56, "\u03A5\u0313\u0342"},
                                    {0x1F80, "\u1F08\u0399"},
                                    {0x1F81, "\u1F09\u0399"},
                                    {0x1F82, "\u1F0A\u0399"},
                                    {0x1F83, "\u1F0B\u0399"},
                                    {0x1F84, "\u1F0C\u0399"},
                                    {0x1F85, "\u1F0D\u0399"},
                                    {0x1F86, "\u1F0E\u0399"},
                                    {0x1F87, "\u1F0F\u0399"},
                                    {0x1F88, "\u1F08\u0399"},
                                    {0x1F89, "\u1F09\u0399"},
                                    {0x1F8A, "\u1F0A\u0399"},
                                    {0x1F8B, "\u1F0B\u0399"},
                                    {0x1F8C, "\u1F0C\u0399"},
                                    {0x1F8D, "\u1F0D\u0399"},
                                    {0x1F8E, "\u1F0E\u0399"},
                                    {0x1F8F, "\u1F0F\u0399"},
                                    {0x1F90, "\u1F28\u0399"},
                                    {0x1F91, "\u1F29\u0399"},
                                    {0x1F92, "\u1F2A\u0399"},
                                    {0x1F93, "\u1F2B\u0399"},
                                    {0x1F94, "\u1F2C\u0399"},
                                    {0x1F95, "\u1F2D\u0399"},
                                    {0x1F96, "\u1F2E\u0399"},
                                    {0x1F97, "\u1F2F\u0399"},
                                    {0x1F98, "\u1F28\u0399"},
                                    {0x1F99, "\u1F29\u0399"},
                                    {0x1F9A, "\u1F2A\u0399"},
                                    {0x1F9B, "\u1F2B\u0399"},
                                    {0x1F9C, "\u1F2C\u0399"},
                                    {0x1F9D, "\u1F2D\u0399"},
                                    {0x1F9E, "\u1F2E\u0399"},
                                    {0x1F9F, "\u1F2F\u0399"},
                                    {0x1FA0, "\u1F68\u0399"},
                                    {0x1FA1, "\u1F69\u0399"},
                                    {0x1FA2, "\u1F6A\u0399"},
                                    {0x1FA3, "\u1F6B\u0399"},
                                    {0x1FA4, "\u1F6C\u0399"},
                                    {0x1FA5, "\u1F6D\u0399"},
                                    {0x1FA6, "\u1F6E\u0399"},
                                    {0x1FA7, "\u1F6F\u0399"},
                                    {0x1FA8, "\u1F68\u0399"},
                                    {0x1FA9, "\u1F69\u0399"},
                                    {0x1FAA, "\u1F6A\u0399"},
                                    {0x1FAB, "\u1F6B\u0399"},
                                    {0x1FAC, "\u1F6C\u0399"},
                                    {0x1FAD, "\u1F6D\u0399"},
                                    {0x1FAE, "\u1F6E\u0399"},
                                    {0x1FAF, "\u1F6F\u0399"},
                                    {0x1FB2, "\u1FBA\u0399"},
                                    {0x1FB3, "\u0391\u0399"},
                                    {0x1FB4, "\u0386\u0399"},
                                    {0x1FB6, "\u0391\u0342"},
                                    {0x1FB7, "\u0391\u0342\u0399"},
                                    {0x1FBC, "\u0391\u0399"},
                                    {0x1FC2, "\u1FCA\u0399"},
                                    {0x1FC3, "\u0397\u0399"},
                                    {0x1FC4, "\u0389\u0399"},
                                    {0x1FC6, "\u0397\u0342"},
                                    {0x1FC7, "\u0397\u0342\u0399"},
                                    {0x1FCC, "\u0397\u0399"},
                                    {0x1FD2, "\u0399\u0308\u0300"},
                                    {0x1FD3, "\u0399\u0308\u0301"},
                                    {0x1FD6, "\u0399\u0342"},
                                    {0x1FD7, "\u0399\u0308\u0342"},
                                    {0x1FE2, "\u03A5\u0308\u0300"},
                                    {0x1FE3, "\u03A5\u0308\u0301"},
                                    {0x1FE4, "\u03A1\u0313"},
                                    {0x1FE6, "\u03A5\u0342"},
                                    {0x1FE7, "\u03A5\u0308\u0342"},
                                    {0x1FF2, "\u1FFA\u0399"},
                                    {0x1FF3, "\u03A9\u0399"},
                                    {0x1FF4, "\u038F\u0399"},
                                    {0x1FF6, "\u03A9\u0342"},
                                    {0x1FF7, "\u03A9\u0342\u0399"},
                                    {0x1FFC, "\u03A9\u0399"},
                                    {0xFB00, "FF"},
                                    {0xFB01, "FI"},
                                    {0xFB02, "FL"},
                                    {0xFB03, "FFI"},
                                    {0xFB04, "FFL"},
                                    {0xFB05, "ST"},
                                    {0xFB06, "ST"},
                                    {0xFB13, "\u0544\u0546"},
                                    {0xFB14, "\u0544\u0535"},
                                    {0xFB15, "\u0544\u053B"},
                                    {0xFB16, "\u054E\u0546"},
                                    {0xFB17, "\u0544\u053D"}};

std::string_view long_upper(char32_t code) {
  const auto* it =
      std::lower_bound(std::begin(kLongUpper), std::end(kLongUpper), code,
                       [](const LongUpper& entry, char32_t wanted) { return entry.code < wanted; });
  return it != std::end(kLongUpper) && it->code == code ? it->upper : std::string_view();
}

void append_upper(std::string& out, char32_t code) {
  if (code >= 0x80) {
    if (const auto special = long_upper(code); !special.empty()) {
      out += special;
      return;
    }
  }
  append_utf8(out, simple_upper(code));
}

// A sigma at the end of a word has a form of its own.
bool is_final_sigma(std::string_view text, std::size_t begin, std::size_t end) {
  bool cased_before = false;
  if (begin > 0) {
    std::size_t at = previous_character(text, begin);
    cased_before = is_cased(next_character(text, at));
  }
  if (!cased_before || end >= text.size()) return cased_before;
  return !is_cased(next_character(text, end));
}

void append_lower(std::string& out, std::string_view text, std::size_t begin, std::size_t end,
                  char32_t code) {
  if (code == 0x130) {
    out += "i\u0307";
  } else if (code == 0x3A3) {
    append_utf8(out, is_final_sigma(text, begin, end) ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out, simple_lower(code));
  }
}

void append_title(std::string& out, char32_t code) {
  const auto titled = static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
  const auto special = code >= 0x80 && titled == code ? long_upper(code) : std::string_view();
  if (special.empty()) {
    append_utf8(out, titled);
    return;
  }
  // Up to its first letter with a case it stays upper case.
  for (std::size_t at = 0; at < special.size();) {
    const char32_t letter = next_character(special, at);
    append_utf8(out, letter);
    if (!is_cased(letter)) continue;
    out += replace(lower(special.substr(at)), "\u03B9", "\u0345", -1);  // an iota goes below
    return;
  }
}

template <typename Append>
std::string map_characters(std::string_view text, const Append& append) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t code = next_character(text, at);
    append(out, begin, at, code);
  }
  return out;
}

bool has_character(std::string_view chars, std::string_view character) {
  return chars.find(character) != std::string_view::npos;
}

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

// str.istitle: upper case only after uncased characters, lower case only after cased ones.
bool is_title_text(std::string_view text) {
  bool any = false, after_cased = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    if (is_upper(code) || is_title(code)) {
      if (after_cased) return false;
      any = after_cased = true;
    } else if (is_lower(code)) {
      if (!after_cased) return false;
      any = true;
    } else {
      after_cased = false;
    }
  }
  return any;
}

// str.islower and str.isupper: at least one cased character, and none of the other case.
template <typename Wrong>
bool is_one_case(std::string_view text, const Wrong& wrong) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    if (wrong(code)) return false;
    any = any || is_cased(code);
  }
  return any;
}

}  // namespace

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_identifier_start(char32_t code) {
  if (code < 0x80) {
    return code == '_' || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  }
  return is_letter(code) || category(code) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t code) {
  if (is_identifier_start(code) || (code >= '0' && code <= '9')) return true;
  if (code < 0x80) return false;
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ND ||
         c == UTF8PROC_CATEGORY_PC;
}

std::size_t byte_of(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_bytes(text[at]);
  return at;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, bool left,
                       bool right) {
  const auto strippable = [&](std::size_t begin, std::size_t end) {
    if (chars) return has_character(*chars, text.substr(begin, end - begin));
    return is_space(next_character(text, begin));
  };
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const std::size_t next = begin + character_bytes(text[begin]);
    if (!strippable(begin, next)) break;
    begin = next;
  }
  while (right && end > begin) {
    const std::size_t previous = previous_character(text, end);
    if (!strippable(previous, end)) break;
    end = previous;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    std::int64_t limit) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  while (limit < 0 || static_cast<std::int64_t>(pieces.size()) < limit) {
    const std::size_t found = text.find(separator, begin);
    if (found == std::string_view::npos) break;
    pieces.push_back(text.substr(begin, found - begin));
    begin = found + separator.size();
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator,
                                     std::int64_t limit) {
  std::vector<std::string_view> pieces;
  std::size_t end = text.size();
  while (limit < 0 || static_cast<std::int64_t>(pieces.size()) < limit) {
    if (end < separator.size()) break;
    const std::size_t found = text.rfind(separator, end - separator.size());
    if (found == std::string_view::npos) break;
    pieces.push_back(text.substr(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  pieces.push_back(text.substr(0, end));
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> split_space(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> pieces;
  text = strip(text, std::nullopt, true, false);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<std::int64_t>(pieces.size()) >= limit) {
      pieces.push_back(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size()) {
      std::size_t next = end;
      if (is_space(next_character(text, next))) break;
      end = next;
    }
    pieces.push_back(text.substr(0, end));
    text = strip(text.substr(end), std::nullopt, true, false);
  }
  return pieces;
}

std::vector<std::string_view> rsplit_space(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> pieces;
  text = strip(text, std::nullopt, false, true);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<std::int64_t>(pieces.size()) >= limit) {
      pieces.push_back(text);
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0) {
      const std::size_t previous = previous_character(text, begin);
      std::size_t at = previous;
      if (is_space(next_character(text, at))) break;
      begin = previous;
    }
    pieces.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), std::nullopt, false, true);
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t code = next_character(text, at);
    if (!is_line_end(code)) continue;
    if (code == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::int64_t count_of(std::string_view text, std::string_view what) {
  if (what.empty()) return character_count(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    ++count;
  }
  return count;
}

std::string replace(std::string_view text, std::string_view what, std::string_view with,
                    std::int64_t limit) {
  std::string out;
  std::size_t at = 0;
  for (std::int64_t done = 0; limit < 0 || done < limit; ++done) {
    // An empty text is found before every character and at the end.
    const std::size_t found = what.empty() ? at : text.find(what, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    out += with;
    at = found + what.size();
    if (!what.empty()) continue;
    if (at >= text.size()) return out;
    const std::size_t bytes = character_bytes(text[at]);
    out += text.substr(at, bytes);
    at += bytes;
  }
  out += text.substr(at);
  return out;
}

std::string upper(std::string_view text) {
  return map_characters(text, [](std::string& out, std::size_t, std::size_t, char32_t code) {
    append_upper(out, code);
  });
}

std::string lower(std::string_view text) {
  return map_characters(text, [&](std::string& out, std::size_t begin, std::size_t end,
                                  char32_t code) { append_lower(out, text, begin, end, code); });
}

std::string swap_case(std::string_view text) {
  return map_characters(text,
                        [&](std::string& out, std::size_t begin, std::size_t end, char32_t code) {
                          if (is_upper(code)) {
                            append_lower(out, text, begin, end, code);
                          } else if (is_lower(code)) {
                            append_upper(out, code);
                          } else {
                            append_utf8(out, code);
                          }
                        });
}

std::string capitalize(std::string_view text) {
  return map_characters(text,
                        [&](std::string& out, std::size_t begin, std::size_t end, char32_t code) {
                          if (begin == 0) {
                            append_title(out, code);
                          } else {
                            append_lower(out, text, begin, end, code);
                          }
                        });
}

std::string title(std::string_view text) {
  bool after_cased = false;
  return map_characters(text,
                        [&](std::string& out, std::size_t begin, std::size_t end, char32_t code) {
                          if (after_cased) {
                            append_lower(out, text, begin, end, code);
                          } else {
                            append_title(out, code);
                          }
                          after_cased = is_cased(code);
                        });
}

bool has_trait(std::string_view text, Trait trait) {
  switch (trait) {
    case Trait::kAscii:
      return character_count(text) == static_cast<std::int64_t>(text.size());
    case Trait::kLower:
      return is_one_case(text, [](char32_t c) { return is_upper(c) || is_title(c); });
    case Trait::kUpper:
      return is_one_case(text, [](char32_t c) { return is_lower(c) || is_title(c); });
    case Trait::kTitle:
      return is_title_text(text);
    default:
      break;
  }
  for (std::size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const char32_t code = next_character(text, at);
    const bool fits = trait == Trait::kAlnum     ? is_letter(code) || is_number_category(code)
                      : trait == Trait::kAlpha   ? is_letter(code)
                      : trait == Trait::kDecimal ? is_decimal(code)
                      : trait == Trait::kDigit   ? is_digit(code)
                      : trait == Trait::kNumeric ? is_number_category(code)
                      : trait == Trait::kSpace   ? is_space(code)
                      : trait == Trait::kPrintable
                          ? is_printable(code)
                          : (first ? is_identifier_start(code) : is_identifier_part(code));
    if (!fits) return false;
  }
  return !text.empty() || trait == Trait::kPrintable;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, std::nullopt, true, true);
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit_at = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_') {
      if (i == 0 || !digit_at(i - 1) || !digit_at(i + 1)) return std::nullopt;
      continue;
    }
    digits += text[i];
  }
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  double number = 0;
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (end != rest.data() + rest.size() || rest.ends_with(')')) return std::nullopt;
  if (code == std::errc::result_out_of_range) {
    number = std::strtod(std::string(rest).c_str(), nullptr);  // zero or infinity
  } else if (code != std::errc()) {
    return std::nullopt;
  }
  return negative ? -number : number;
}

}  // namespace saccade::jinja
