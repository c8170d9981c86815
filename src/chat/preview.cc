// Kitty: sw.kovidgoyal.net/kitty/graphics-protocol. Sixel: VT340's, DEC STD 070.
#include "chat/preview.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text/base64.h"

namespace saccade::chat {
namespace {

constexpr int kLevels = 6;  // of each of red, green and blue: 216 colours, within sixel's 256

Pixels scaled(const Pixels& pixels, int side) {
  const int longer = std::max(pixels.width, pixels.height);
  if (longer <= side) return pixels;
  const auto shorter = [&](int length) { return std::max(1, length * side / longer); };
  return resize(pixels, shorter(pixels.width), shorter(pixels.height), ResampleFilter::kBilinear);
}

std::string kitty(const Pixels& pixels) {
  constexpr std::size_t kMaxBytes = 4096;  // of base64 in one command
  const std::string data =
      base64_encode({reinterpret_cast<const char*>(pixels.rgb.data()), pixels.rgb.size()});
  std::string out;
  for (std::size_t at = 0; at < data.size(); at += kMaxBytes) {
    const bool more = at + kMaxBytes < data.size();
    const std::string head =
        at == 0 ? fmt::format("a=T,f=24,s={},v={},q=2,", pixels.width, pixels.height) : "";
    out += fmt::format("\x1b_G{}m={};{}\x1b\\", head, more ? 1 : 0, data.substr(at, kMaxBytes));
  }
  return out + "\n";
}

int colour_at(const Pixels& pixels, int x, int y) {
  const std::uint8_t* const rgb =
      pixels.rgb.data() + (static_cast<std::size_t>(y) * pixels.width + x) * 3;
  const auto level = [](std::uint8_t value) { return (value * (kLevels - 1) + 127) / 255; };
  return (level(rgb[0]) * kLevels + level(rgb[1])) * kLevels + level(rgb[2]);
}

// A run of one sixel: repeats of four and more are written as a count.
void append_run(std::string& out, char sixel, int count) {
  if (count >= 4) {
    out += fmt::format("!{}{}", count, sixel);
  } else {
    out.append(static_cast<std::size_t>(count), sixel);
  }
}

// Six rows: for each colour in them, one character a column with a bit for each row.
void append_band(std::string& out, const Pixels& pixels, int top) {
  const int rows = std::min(6, pixels.height - top);
  std::array<std::vector<std::uint8_t>, kLevels * kLevels * kLevels> bits;
  for (int row = 0; row < rows; ++row) {
    for (int x = 0; x < pixels.width; ++x) {
      auto& columns = bits[static_cast<std::size_t>(colour_at(pixels, x, top + row))];
      columns.resize(static_cast<std::size_t>(pixels.width));
      columns[static_cast<std::size_t>(x)] |= static_cast<std::uint8_t>(1u << row);
    }
  }
  for (std::size_t colour = 0; colour < bits.size(); ++colour) {
    if (bits[colour].empty()) continue;
    out += fmt::format("#{}", colour);
    int count = 0;
    char last = 0;
    for (const std::uint8_t column : bits[colour]) {
      const char sixel = static_cast<char>('?' + column);
      if (sixel != last && count > 0) append_run(out, last, std::exchange(count, 0));
      last = sixel;
      ++count;
    }
    append_run(out, last, count);
    out += '$';  // back to the left
  }
  out += '-';  // the next band
}

std::string sixel(const Pixels& pixels) {
  std::string out = fmt::format("\x1bPq\"1;1;{};{}", pixels.width, pixels.height);
  const auto percent = [](int level) { return level * 100 / (kLevels - 1); };
  for (int colour = 0; colour < kLevels * kLevels * kLevels; ++colour)
    out += fmt::format("#{};2;{};{};{}", colour, percent(colour / (kLevels * kLevels)),
                       percent(colour / kLevels % kLevels), percent(colour % kLevels));
  for (int top = 0; top < pixels.height; top += 6) append_band(out, pixels, top);
  return out + "\x1b\\\n";
}

// The attributes among the answers, "?62;4;22", without what stands around them.
std::string_view attributes_of(std::string_view answers) {
  const std::size_t begin = answers.find("\x1b[?");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = answers.find('c', begin);
  if (end == std::string_view::npos) return {};
  return answers.substr(begin + 3, end - begin - 3);
}

}  // namespace

std::string preview_question() { return "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c"; }

bool is_complete(std::string_view answers) { return !attributes_of(answers).empty(); }

PreviewKind preview_kind(std::string_view answers) {
  if (answers.find("\x1b_Gi=31;OK") != std::string_view::npos) return PreviewKind::kKitty;
  std::string_view attributes = attributes_of(answers);
  while (!attributes.empty()) {
    const std::size_t end = std::min(attributes.find(';'), attributes.size());
    if (attributes.substr(0, end) == "4") return PreviewKind::kSixel;
    attributes.remove_prefix(std::min(end + 1, attributes.size()));
  }
  return PreviewKind::kNone;
}

std::string preview(PreviewKind kind, const Pixels& pixels, int side) {
  if (kind == PreviewKind::kNone) return {};
  const Pixels small = scaled(pixels, side);
  return kind == PreviewKind::kKitty ? kitty(small) : sixel(small);
}

}  // namespace saccade::chat
