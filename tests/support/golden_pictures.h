// For the tests of image/: the files and tables that tools/goldens/images.py wrote.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "image/pixels.h"

namespace saccade::test {

inline std::string golden_path(const std::string& name) {
  return std::string(SACCADE_SOURCE_DIR "/tests/golden/images/") + name;
}

inline std::string read_golden(const std::string& name) {
  std::ifstream file(golden_path(name), std::ios::binary);
  EXPECT_TRUE(file.good()) << golden_path(name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Lines of tab-separated fields.
inline std::vector<std::vector<std::string>> read_table(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream text(read_golden(name));
  for (std::string line; std::getline(text, line);) {
    std::vector<std::string> fields;
    std::istringstream row(line);
    for (std::string field; std::getline(row, field, '\t');) fields.push_back(field);
    rows.push_back(fields);
  }
  return rows;
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline Pixels golden_pixels(const std::string& name) {
  const std::string file = read_golden(name);
  Result<Pixels> pixels = decode_image(bytes_of(file));
  EXPECT_TRUE(pixels.has_value()) << name << ": " << pixels.error().message;
  return pixels ? *std::move(pixels) : Pixels{};
}

template <typename T>
std::string digest_of(const std::vector<T>& values) {
  return to_hex(sha256({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}));
}

}  // namespace saccade::test
