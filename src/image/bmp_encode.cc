#include "image/bmp_encode.h"

#include <cstdint>

namespace saccade {
namespace {

constexpr std::size_t kHeaders = 14 + 40;

std::size_t row_bytes(int width) { return (static_cast<std::size_t>(width) * 3 + 3) / 4 * 4; }

void put(std::string& to, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> 8 * i));
}

}  // namespace

std::size_t bmp_bytes(int width, int height) {
  return kHeaders + row_bytes(width) * static_cast<std::size_t>(height);
}

std::string encode_bmp(const Pixels& pixels) {
  const std::size_t size = bmp_bytes(pixels.width, pixels.height);
  std::string file;
  file.reserve(size);
  file += "BM";
  put(file, static_cast<std::uint32_t>(size), 4);
  put(file, 0, 4);
  put(file, kHeaders, 4);
  put(file, 40, 4);
  put(file, static_cast<std::uint32_t>(pixels.width), 4);
  put(file, static_cast<std::uint32_t>(-pixels.height), 4);  // below 0: top row first
  put(file, 1, 2);
  put(file, 24, 2);
  for (int i = 0; i < 6; ++i) put(file, 0, 4);  // no coding, no palette
  const std::size_t padding = row_bytes(pixels.width) - static_cast<std::size_t>(pixels.width) * 3;
  const std::uint8_t* rgb = pixels.rgb.data();
  for (int y = 0; y < pixels.height; ++y) {
    for (int x = 0; x < pixels.width; ++x, rgb += 3) {
      file.push_back(static_cast<char>(rgb[2]));
      file.push_back(static_cast<char>(rgb[1]));
      file.push_back(static_cast<char>(rgb[0]));
    }
    file.append(padding, '\0');
  }
  return file;
}

}  // namespace saccade
