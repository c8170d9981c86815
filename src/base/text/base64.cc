#include "base/text/base64.h"

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/text/ascii.h"
#endif

namespace saccade {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Two characters for every 12 bits.
constexpr auto kPairs = [] {
  std::array<std::array<char, 2>, 4096> pairs{};
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {kAlphabet[i >> 6], kAlphabet[i & 63]};
  return pairs;
}();

constexpr std::uint32_t kBad = 0xff000000;

// For each place in a group of four: the character's six bits where they belong in 24, or kBad.
constexpr auto kPlaces = [] {
  std::array<std::array<std::uint32_t, 256>, 4> places{};
  for (std::size_t place = 0; place < 4; ++place) {
    for (std::uint32_t& bits : places[place]) bits = kBad;
    for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
      places[place][static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint32_t>(i)
                                                                << (18 - 6 * place);
    }
  }
  return places;
}();

std::uint32_t group_bits(const char* text) {
  std::uint32_t bits = 0;
  for (std::size_t place = 0; place < 4; ++place)
    bits |= kPlaces[place][static_cast<unsigned char>(text[place])];
  return bits;
}

void put_bytes(std::uint32_t bits, std::size_t count, char* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<char>(bits >> (16 - 8 * i));
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) inline __m256i within(__m256i c, char first, char last) {
  return _mm256_and_si256(_mm256_cmpgt_epi8(c, _mm256_set1_epi8(static_cast<char>(first - 1))),
                          _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(last + 1)), c));
}

// Decodes 32 characters a step to 24 bytes, storing 32; stops before anything it cannot take and
// leaves room for the wide stores. Returns the characters taken.
__attribute__((target("avx2"))) std::size_t decode_avx2(std::string_view text, char* to) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1));
  const __m256i close = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
  std::size_t at = 0;
  // 32 bytes are stored where 24 are due, so 12 more characters must follow.
  for (; text.size() - at >= 32 + 12; at += 32, to += 24) {
    const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text.data() + at));
    const __m256i upper = within(c, 'A', 'Z');
    const __m256i lower = within(c, 'a', 'z');
    const __m256i digit = within(c, '0', '9');
    const __m256i plus = _mm256_cmpeq_epi8(c, _mm256_set1_epi8('+'));
    const __m256i slash = _mm256_cmpeq_epi8(c, _mm256_set1_epi8('/'));
    const __m256i known = _mm256_or_si256(_mm256_or_si256(upper, lower),
                                          _mm256_or_si256(digit, _mm256_or_si256(plus, slash)));
    if (_mm256_movemask_epi8(known) != -1) break;
    // From the character to its place in the alphabet.
    __m256i shift = _mm256_and_si256(upper, _mm256_set1_epi8(-'A'));
    shift = _mm256_or_si256(shift, _mm256_and_si256(lower, _mm256_set1_epi8(26 - 'a')));
    shift = _mm256_or_si256(shift, _mm256_and_si256(digit, _mm256_set1_epi8(52 - '0')));
    shift = _mm256_or_si256(shift, _mm256_and_si256(plus, _mm256_set1_epi8(62 - '+')));
    shift = _mm256_or_si256(shift, _mm256_and_si256(slash, _mm256_set1_epi8(63 - '/')));
    const __m256i six = _mm256_add_epi8(c, shift);
    const __m256i twelve = _mm256_maddubs_epi16(six, _mm256_set1_epi16(0x0140));     // 64 a + b
    const __m256i bits = _mm256_madd_epi16(twelve, _mm256_set1_epi32(0x0001'1000));  // 4096 a + b
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(bits, order), close);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
  }
  return at;
}
#endif

std::size_t decode_fast(std::string_view text, char* to) {
#if defined(__x86_64__)
  static const bool available = __builtin_cpu_supports("avx2") != 0;
  if (available) return decode_avx2(text, to);
#endif
  (void)text, (void)to;
  return 0;
}

tl::unexpected<Error> bad_byte(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte > ' ' && byte < 0x7f)
    return fail(ErrorCode::kInvalid, "base64: '{}' at offset {}", text[at], at);
  return fail(ErrorCode::kInvalid, "base64: byte {:#04x} at offset {}", byte, at);
}

tl::unexpected<Error> bad_character(std::string_view text, std::size_t group) {
  std::size_t at = group;
  while (at + 1 < text.size() && kPlaces[3][static_cast<unsigned char>(text[at])] != kBad) ++at;
  return bad_byte(text, at);
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

// The character at `at`, which is moved past it: of a percent-escape what it stands for.
char next_character(std::string_view text, std::size_t& at) {
  const char c = text[at++];
  if (c != '%' || text.size() - at < 2) return c;
  const int high = ascii::hex_value(text[at]);
  const int low = ascii::hex_value(text[at + 1]);
  if (high < 0 || low < 0) return c;
  at += 2;
  return static_cast<char>(high * 16 + low);
}

// Without blanks and padding, in the standard alphabet.
Result<std::string> cleaned(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  std::size_t padding = 0;
  std::size_t first_padding = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    char c = next_character(text, at);
    if (is_blank(c)) continue;
    if (c == '=') {
      if (padding++ == 0) first_padding = from;
      continue;
    }
    if (padding > 0) return bad_byte(text, first_padding);
    if (c == '-') c = '+';
    if (c == '_') c = '/';
    if (kPlaces[3][static_cast<unsigned char>(c)] == kBad) return bad_byte(text, from);
    clean += c;
  }
  // As many as fill the last group, or none.
  if (padding > 0 && (padding > 2 || (clean.size() + padding) % 4 != 0))
    return bad_byte(text, first_padding);
  return clean;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '=');
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(bytes[i])};
  };
  char* to = text.data();
  std::size_t at = 0;
  for (; bytes.size() - at >= 3; at += 3, to += 4) {
    const std::uint32_t bits = byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
    std::memcpy(to, kPairs[bits >> 12].data(), 2);
    std::memcpy(to + 2, kPairs[bits & 4095].data(), 2);
  }
  const std::size_t rest = bytes.size() - at;
  if (rest > 0) {
    const std::uint32_t bits = byte(at) << 16 | (rest == 2 ? byte(at + 1) << 8 : 0);
    std::memcpy(to, kPairs[bits >> 12].data(), 2);
    if (rest == 2) to[2] = kAlphabet[bits >> 6 & 63];
  }
  return text;
}

Result<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return fail(ErrorCode::kInvalid, "base64: {} characters are not a multiple of 4", text.size());
  }
  if (text.empty()) return std::string();
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::size_t whole = text.size() - (padding > 0 ? 4 : 0);  // characters in full groups
  std::string bytes(text.size() / 4 * 3 - padding, '\0');

  std::size_t at = decode_fast(text.substr(0, whole), bytes.data());
  char* to = bytes.data() + at / 4 * 3;
  for (; at < whole; at += 4, to += 3) {
    const std::uint32_t bits = group_bits(text.data() + at);
    if (bits >= kBad) return bad_character(text, at);
    put_bytes(bits, 3, to);
  }
  if (padding > 0) {
    char last[4] = {'A', 'A', 'A', 'A'};
    std::memcpy(last, text.data() + whole, 4 - padding);
    const std::uint32_t bits = group_bits(last);
    if (bits >= kBad) return bad_character(text, whole);
    put_bytes(bits, 3 - padding, to);
    if ((bits & (padding == 2 ? 0xffff : 0xff)) != 0) {
      return fail(ErrorCode::kInvalid, "base64: stray bits before the padding at offset {}",
                  text.size() - padding);
    }
  }
  return bytes;
}

Result<std::string> base64_decode_forgiving(std::string_view text) {
  if (auto bytes = base64_decode(text)) return bytes;
  TRY(const std::string clean, cleaned(text));
  const std::size_t rest = clean.size() % 4;
  if (rest == 1)
    return fail(ErrorCode::kInvalid, "base64: '{}', the last of {} characters, is no byte",
                clean.back(), clean.size());
  const auto whole = std::string_view(clean).substr(0, clean.size() - rest);
  TRY(std::string bytes, base64_decode(whole));
  if (rest == 0) return bytes;
  char last[4] = {'A', 'A', 'A', 'A'};
  std::memcpy(last, clean.data() + whole.size(), rest);
  char tail[3];
  put_bytes(group_bits(last), 3, tail);
  return bytes.append(tail, rest - 1);
}

bool says_base64(std::string_view head) {
  constexpr std::string_view kWord = "base64";
  const auto trim = [&] {
    while (!head.empty() && is_blank(head.back())) head.remove_suffix(1);
  };
  trim();
  if (head.size() < kWord.size()) return false;
  if (ascii::lower(head.substr(head.size() - kWord.size())) != kWord) return false;
  head.remove_suffix(kWord.size());
  trim();
  return head.ends_with(';');
}

}  // namespace saccade
