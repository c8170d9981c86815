#include "base/text/printable.h"

#include <fmt/format.h>

#include <iterator>

namespace saccade {

std::string printable(std::string_view utf8) {
  std::string line;
  line.reserve(utf8.size());
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    const auto follows = [&](std::string_view bytes) { return utf8.substr(i).starts_with(bytes); };
    if (byte == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
    } else if (byte == 0xc2 && i + 1 < utf8.size() &&
               static_cast<unsigned char>(utf8[i + 1]) < 0xa0) {  // C1: U+0080 to U+009F
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", static_cast<unsigned char>(utf8[++i]));
    } else if (follows("\xe2\x80\xa8") || follows("\xe2\x80\xa9")) {
      line += utf8[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      line += utf8[i];
    }
  }
  return line;
}

}  // namespace saccade
