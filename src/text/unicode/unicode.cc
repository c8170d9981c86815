#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>

#include "base/check.h"
#include "text/unicode/unicode_tables.h"

namespace saccade {

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    if (step.kind != Utf8Step::Kind::kCharacter) return false;
    at += step.length;
  }
  return true;
}

std::size_t append_valid_utf8(std::string& out, std::string_view bytes, bool at_end) {
  std::size_t taken = 0;  // bytes before this are in `out`
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Step step = decode_utf8(bytes, at);
    if (step.kind != Utf8Step::Kind::kCharacter) {
      out += bytes.substr(taken, at - taken);
      if (step.kind == Utf8Step::Kind::kTruncated && !at_end) return bytes.size() - at;
      append_utf8(out, kReplacementCharacter);
      taken = at + step.length;
    }
    at += step.length;
  }
  out += bytes.substr(taken);
  return 0;
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word_character(char32_t code) {
  if (const CategoryRange* newer = find_range(kUnicodeTables.since_15, code)) {
    const std::string_view category = newer->category;
    return category[0] == 'L' || category[0] == 'M' || category == "Nd";
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // enclosed letters are Alphabetic though their category is symbol
      return code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
             (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
             (code >= 0x1F170 && code <= 0x1F189);
  }
}

bool may_have_newer_characters(std::string_view text) {
  static const std::array<bool, 0x1100> pages = [] {  // of 256 characters each
    std::array<bool, 0x1100> found{};
    for (const CategoryRange& range : kUnicodeTables.since_15) {
      for (char32_t page = range.first >> 8; page <= range.last >> 8; ++page) found[page] = true;
    }
    return found;
  }();
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xE0) {  // below U+0800
      ++at;
    } else if (pages[next_character(text, at) >> 8]) {
      return true;
    }
  }
  return false;
}

namespace {

// Characters that are alone in NFC: unchanged by it, and never composed with what is before them.
// Not all of them, only the long blocks that much text consists of.
bool stands_alone_in_nfc(char32_t code) {
  return code < 0x300 || (code >= 0x400 && code <= 0x482) || (code >= 0x2010 && code <= 0x2027) ||
         (code >= 0x3001 && code <= 0x3029) || (code >= 0x3041 && code <= 0x3096) ||
         (code >= 0x30A1 && code <= 0x30FA) || (code >= 0x4E00 && code <= 0x9FFF) ||
         (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xFF01 && code <= 0xFF5E) ||
         (code >= 0x1F300 && code <= 0x1FAFF);
}

void map_utf8(std::string& out, std::string_view text, int options) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  CHECK(length >= 0, "utf8proc: {} on {} bytes", utf8proc_errmsg(length), text.size());
  out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
  std::free(mapped);
}

// Characters that are younger than the reference's normal forms pass as they are.
void append_normal_form(std::string& out, std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kKC || form == NormalForm::kKD;
  int options =
      form == NormalForm::kC || form == NormalForm::kKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (compatible) options |= UTF8PROC_COMPAT;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t code = next_character(text, at);
    if (!in_ranges(kUnicodeTables.outside_forms, code) &&
        !(compatible && in_ranges(kUnicodeTables.outside_compatibility, code))) {
      continue;
    }
    map_utf8(out, text.substr(done, begin - done), options);
    out += text.substr(begin, at - begin);
    done = at;
  }
  map_utf8(out, text.substr(done), options);
}

// Copies characters that stand alone; what is left are short stretches, each with the character
// before it, which it may change.
std::string compose(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  std::size_t done = 0, last = 0;  // `last`: begin of the character before `at`
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (stands_alone_in_nfc(next_character(text, at))) {
      last = begin;
      continue;
    }
    result += text.substr(done, last - done);
    std::size_t end = at;
    while (at < text.size() && !stands_alone_in_nfc(next_character(text, at))) end = at;
    append_normal_form(result, text.substr(last, end - last), NormalForm::kC);
    done = last = at = end;
  }
  result += text.substr(done);
  return result;
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  bool ascii = true;
  for (const char c : text) ascii &= static_cast<unsigned char>(c) < 0x80;
  if (ascii) return std::string(text);
  if (form == NormalForm::kC) return compose(text);

  std::string result;
  append_normal_form(result, text, form);
  return result;
}

std::string to_lowercase(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    char32_t lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    if (const CaseRange* newer = find_range(kUnicodeTables.lower, code)) {
      lower = static_cast<char32_t>(static_cast<int>(code) + newer->distance);
    }
    append_utf8(result, lower);
    if (code == 0x130) append_utf8(result, 0x307);  // the one letter with a longer lower case
  }
  return result;
}

}  // namespace saccade
