#include "text/pipeline/precompiled_charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "base/text/base64.h"
#include "text/unicode/unicode.h"

namespace saccade {
namespace {

constexpr std::size_t kLongestGrapheme = 5;  // bytes; longer ones are looked at by character
constexpr std::size_t kLongestReplacement = 4096;

// The fields of a darts-clone unit.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

Result<PrecompiledCharsmap> PrecompiledCharsmap::parse(std::string_view base64) {
  TRY(const std::string bytes, base64_decode_forgiving(base64));
  std::uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof(trie_bytes))
    return fail(ErrorCode::kInvalid, "the charsmap is too short");
  std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));  // little endian, like this machine
  if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > bytes.size() - sizeof(trie_bytes)) {
    return fail(ErrorCode::kInvalid, "the charsmap has {} bytes and says its trie has {}",
                bytes.size(), trie_bytes);
  }
  PrecompiledCharsmap map;
  map.trie_.resize(trie_bytes / 4);
  std::memcpy(map.trie_.data(), bytes.data() + sizeof(trie_bytes), trie_bytes);
  map.replacements_ = bytes.substr(sizeof(trie_bytes) + trie_bytes);
  map.replacements_ += '\0';
  std::size_t begin = 0;
  for (std::size_t end = map.replacements_.find('\0'); end != std::string::npos;
       end = map.replacements_.find('\0', begin)) {
    if (end - begin > kLongestReplacement) {
      return fail(ErrorCode::kTooLarge, "the charsmap has a replacement of {} bytes, limit {}",
                  end - begin, kLongestReplacement);
    }
    if (!is_valid_utf8(std::string_view(map.replacements_).substr(begin, end - begin))) {
      return fail(ErrorCode::kInvalid, "the charsmap has a replacement that is not valid UTF-8");
    }
    begin = end + 1;
  }
  return map;
}

const char* PrecompiledCharsmap::find(std::string_view text) const {
  std::size_t node = offset_of(trie_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    node ^= byte;
    if (node >= trie_.size()) return nullptr;
    const std::uint32_t unit = trie_[node];
    if (label_of(unit) != byte) return nullptr;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size()) return nullptr;
    const std::uint32_t value = value_of(trie_[node]);
    if (value >= replacements_.size()) return nullptr;
    const char* replacement = replacements_.data() + value;
    return is_valid_utf8(replacement) ? replacement : nullptr;  // a file may point inside one
  }
  return nullptr;
}

std::string PrecompiledCharsmap::apply(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  const auto replace_grapheme = [&](std::string_view grapheme) {
    if (grapheme.size() <= kLongestGrapheme) {
      if (const char* replacement = find(grapheme)) {
        result += replacement;
        return;
      }
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view character = grapheme.substr(at, character_bytes(grapheme[at]));
      at += character.size();
      if (const char* replacement = find(character)) {
        result += replacement;
      } else {
        result += character;
      }
    }
  };
  std::size_t begin = 0;
  utf8proc_int32_t state = 0, previous = -1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const auto code = static_cast<utf8proc_int32_t>(next_character(text, at));
    if (previous >= 0 && utf8proc_grapheme_break_stateful(previous, code, &state) != 0) {
      replace_grapheme(text.substr(begin, here - begin));
      begin = here;
    }
    previous = code;
  }
  replace_grapheme(text.substr(begin));
  return result;
}

}  // namespace saccade
