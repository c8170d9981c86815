#include "text/unicode/byte_alphabet.h"

#include "text/unicode/unicode.h"

namespace saccade {
namespace {

constexpr char32_t kFirstStandIn = 0x100;  // bytes that are not printable are numbered from here

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> characters{};
    char32_t stand_in = kFirstStandIn;
    for (unsigned byte = 0; byte < 256; ++byte)
      characters[byte] = stands_for_itself(byte) ? byte : stand_in++;
    return characters;
  }();
  return alphabet;
}

void append_byte_characters(std::string& out, std::string_view bytes) {
  for (const char c : bytes) append_utf8(out, byte_alphabet()[static_cast<unsigned char>(c)]);
}

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  // By character: the alphabet ends below U+0200.
  static const std::array<int, 0x200> bytes = [] {
    std::array<int, 0x200> table{};
    table.fill(-1);
    for (int byte = 0; byte < 256; ++byte)
      table[byte_alphabet()[static_cast<std::size_t>(byte)]] = byte;
    return table;
  }();
  std::string result;
  result.reserve(characters.size());
  for (std::size_t at = 0; at < characters.size();) {
    const char32_t code = next_character(characters, at);
    if (code >= bytes.size() || bytes[code] < 0) return std::nullopt;
    result += static_cast<char>(static_cast<unsigned char>(bytes[code]));
  }
  return result;
}

}  // namespace saccade
