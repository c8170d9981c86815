// What is packed comes out to the bit, small where a seed says it; what is damaged is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/golden_files/archive.h"
#include "tests/support/golden_files/sections.h"

namespace saccade::test {
namespace {

void put_element(std::string& out, Element element, float value) {
  const uint32_t bits = bits_of(element, value);
  out.append(reinterpret_cast<const char*>(&bits), width_of(element));
}

// Tensors of the seed's normal numbers, one after the other as torch.randn draws them.
std::string drawn(Element element, uint32_t seed, const std::vector<size_t>& counts, float scale,
                  float mean) {
  const NormalStream normals(seed, 100000);
  std::string bytes;
  size_t draw = 0;
  for (const size_t count : counts) {
    const bool tail = count % 16 != 0;
    for (size_t i = 0; i < count; ++i) {
      const float scaled = normals.at(draw, 0, tail, i, count) * scale;
      put_element(bytes, element, scaled + mean);
    }
    draw += count + (tail ? 16 : 0);
  }
  return bytes;
}

std::string safetensors(const char* dtype, Element element, const std::vector<size_t>& counts,
                        const std::string& data) {
  std::string header = "{";
  size_t at = 0;
  for (const size_t count : counts) {
    const size_t end = at + count * width_of(element);
    header += (at == 0 ? "\"t" : ",\"t") + std::to_string(at) + "\":{\"dtype\":\"" + dtype +
              "\",\"shape\":[" + std::to_string(count) + "],\"data_offsets\":[" +
              std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  header += "}";
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

std::string packed(std::vector<GoldenFile> files) {
  divide(files);
  return pack(files);
}

TEST(NormalStream, IsNormal) {
  const NormalStream normals(7, 200000);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < 160000; ++i) {
    const double z = normals.at(0, 0, false, i, 160000);
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / 160000, 0, 0.01);
  EXPECT_NEAR(squares / 160000, 1, 0.01);
}

TEST(NormalStream, IsThatOfTheLibrarysFunctions) {
  const NormalStream normals(3, 4096);
  std::mt19937 random(3);
  std::vector<double> uniform(4096);
  for (double& each : uniform) each = (random() & 0xffffff) / 16777216.0;
  for (size_t i = 0; i + 8 < 4096; i += 16) {
    for (size_t j = i; j < i + 8; ++j) {
      const double radius = std::sqrt(-2 * std::log(1 - uniform[j])),
                   angle = 2 * M_PI * uniform[j + 8];
      EXPECT_NEAR(normals.at(i, 0, false, j - i, 16), radius * std::cos(angle), 1e-6);
      EXPECT_NEAR(normals.at(i, 0, false, j - i + 8, 16), radius * std::sin(angle), 1e-6);
    }
  }
}

TEST(Difference, IsSmallForNeighboursAndComesBack) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    const unsigned width = i % 2 == 0 ? 2 : 4;
    const uint32_t mask = width == 2 ? 0xffff : 0xffffffff;
    const uint32_t a = random() & mask, b = i % 3 == 0 ? random() & mask : (a + 1) & mask;
    ASSERT_EQ(corrected(b, difference(a, b, width), width), a) << a << " " << b;
  }
  EXPECT_EQ(difference(0x3f800001, 0x3f800000, 4), 2u);
  EXPECT_EQ(difference(0xbf800001, 0xbf800000, 4), 1u);
  EXPECT_EQ(difference(0, 0x8000, 2), 2u);  // 0 is one above -0
}

TEST(GoldenFiles, WhatASeedMakesTakesLittle) {
  for (const auto& [dtype, element] :
       {std::pair("BF16", Element::bf16), std::pair("F16", Element::f16),
        std::pair("F32", Element::f32)}) {
    const std::vector<size_t> counts{4096, 72, 1000};
    const std::string data = drawn(element, 42, counts, 0.15f, 0);
    const std::string bytes = safetensors(dtype, element, counts, data);
    const std::string archive = packed({{"model.safetensors", 0, {}, bytes}});
    EXPECT_LT(archive.size(), 1200) << dtype;
    const auto files = unpack(archive);
    ASSERT_TRUE(files) << files.error().message;
    ASSERT_EQ(files->size(), 1u);
    EXPECT_EQ(files->front().path, "model.safetensors");
    EXPECT_EQ(files->front().bytes, bytes) << dtype;
  }
}

TEST(GoldenFiles, AnythingComesBackToTheBit) {
  std::mt19937 random(9);
  for (int round = 0; round < 20; ++round) {
    const std::vector<size_t> counts{1 + random() % 40, 16 + random() % 300, 64};
    std::string data(2 * (counts[0] + counts[1] + counts[2]), '\0');
    for (char& each : data) each = static_cast<char>(random());
    const std::string bytes = safetensors("BF16", Element::bf16, counts, data);
    // The second repeats the first; the third is no safetensors file.
    const std::vector<GoldenFile> given{{"a.safetensors", 0, {}, bytes},
                                        {"b/a.safetensors", 0, {}, bytes},
                                        {"c.jsonl", 0, {}, data},
                                        {"d", 0, {}, ""}};
    const std::string archive = packed(given);
    EXPECT_LT(archive.size(), 2 * data.size() + 1500);
    const auto files = unpack(archive);
    ASSERT_TRUE(files) << files.error().message;
    ASSERT_EQ(files->size(), given.size());
    for (size_t i = 0; i < given.size(); ++i) EXPECT_EQ((*files)[i].bytes, given[i].bytes);
  }
}

TEST(GoldenFiles, DamageIsRefused) {
  const std::vector<size_t> counts{512};
  const std::string archive = packed(
      {{"model.safetensors",
        0,
        {},
        safetensors("BF16", Element::bf16, counts, drawn(Element::bf16, 5, counts, 0.2f, 1))}});
  EXPECT_FALSE(unpack(""));
  for (size_t end = 0; end < archive.size(); end += 31)
    EXPECT_FALSE(unpack(archive.substr(0, end)));
  const std::string right = unpack(archive).value().front().bytes;
  std::mt19937 random(2);
  size_t refused = 0;
  for (int round = 0; round < 40; ++round) {
    std::string wrong = archive;
    wrong[random() % wrong.size()] ^= static_cast<char>(1 << random() % 8);
    // zlib may say one thing in two ways: a run of zeros by another distance is the same run.
    const auto files = unpack(wrong);
    if (files) {
      EXPECT_EQ(files->front().bytes, right);
    }
    refused += files ? 0 : 1;
  }
  EXPECT_GT(refused, 20u);
}

}  // namespace
}  // namespace saccade::test
