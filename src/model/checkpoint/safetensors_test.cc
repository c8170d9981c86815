#include "model/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message(const Result<SafetensorsHeader>& header) {
  return header ? "no error" : header.error().message;
}

TEST(SafetensorsHeader, ReadsWhatMakeHeaderWrites) {
  const std::vector<SafetensorsPlan> plan = {{"a", DType::kBf16, {2, 3}},
                                             {"b \"quoted\"", DType::kF32, {}},
                                             {"empty", DType::kU8, {0, 7}},
                                             {"c", DType::kI32, {4}}};
  const std::string head = make_safetensors_header(plan, {{"format", "pt"}});
  EXPECT_EQ(head.size() % 64, 0u);
  std::string file = head + std::string(12 + 4 + 16, 'x');
  std::span<const std::byte> data;
  const auto header = parse_safetensors(std::as_bytes(std::span(file)), &data);
  ASSERT_TRUE(header) << message(header);
  EXPECT_EQ(data.size(), 32u);
  ASSERT_EQ(header->tensors.size(), 4u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].dtype, "BF16");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(header->tensors[1].name, "b \"quoted\"");
  EXPECT_EQ(header->tensors[3].end, 32u);
  EXPECT_EQ(header->metadata.at("format"), "pt");

  file.pop_back();
  EXPECT_THAT(message(parse_safetensors(std::as_bytes(std::span(file)), &data)),
              HasSubstr("leave the file's 31 data bytes"));
  file.resize(20);
  EXPECT_THAT(message(parse_safetensors(std::as_bytes(std::span(file)), &data)),
              HasSubstr("truncated?"));
  file.resize(7);
  EXPECT_THAT(message(parse_safetensors(std::as_bytes(std::span(file)), &data)),
              HasSubstr("7 bytes are too few"));
  EXPECT_THAT(message(parse_safetensors(
                  std::as_bytes(std::span("\xff\xff\xff\xff\xff\xff\xff\x7f")), &data)),
              HasSubstr("over the limit"));
}

struct Hostile {
  std::string header;
  std::string expected;  // part of the message
};

TEST(SafetensorsHeader, RefusesEveryBrokenField) {
  const std::vector<Hostile> cases = {
      {"", "header"},
      {"[]", "not an object"},
      {R"({"a":[]})", "tensor \"a\""},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "dtype"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "F31"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", "no shape"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "lengths"},
      {R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", "lengths"},
      {R"({"a":{"dtype":"F32","shape":[1e30],"data_offsets":[0,8]}})", "lengths"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})", "9 extents"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "pair"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,-8]}})", "byte positions"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", "leave the file"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "leave the file"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "F32 [3] does not fit"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,8]}})",
       "does not fit"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,8]}})",
       "does not fit"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})",
       "inside the one that ends at byte 4"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "leaving a gap from byte 2"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "end at byte 4 of 8"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       "\"a\" is in the header twice"},
      {R"({"__metadata__":{"format":1},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       "__metadata__.format"},
      {R"({"a":{"dtype":"U8","shape":[[[[[8]]]]],"data_offsets":[0,8]}})", "header"},
  };
  for (const Hostile& hostile : cases) {
    const auto header = parse_safetensors_header(hostile.header, 8);
    ASSERT_FALSE(header) << hostile.header;
    EXPECT_EQ(header.error().code, ErrorCode::kCorrupt) << hostile.header;
    EXPECT_THAT(header.error().message, HasSubstr(hostile.expected)) << hostile.header;
  }
}

TEST(SafetensorsHeader, NestedKeysAndStringsDoNotLookLikeDuplicates) {
  const auto header = parse_safetensors_header(
      R"({"__metadata__":{"x":"\"a\":{,\\","y":"a"}, "a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}, )"
      R"("dtype":{"dtype":"U8","shape":[0],"data_offsets":[8,8]} })",
      8);
  EXPECT_TRUE(header) << message(header);
}

TEST(SafetensorsFile, MapsAndNamesThePath) {
  const std::string path = ::testing::TempDir() + "/saccade_safetensors_test.safetensors";
  const std::vector<SafetensorsPlan> plan = {{"x", DType::kU8, {5}}};
  std::ofstream(path, std::ios::binary) << make_safetensors_header(plan, {}) << "hello";
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  const SafetensorsEntry* entry = file->find("x");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(file->find("y"), nullptr);
  const auto bytes = file->bytes(*entry);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "hello");
  file->release(*entry);
  EXPECT_EQ(static_cast<char>(bytes[0]), 'h');  // fetched again

  std::ofstream(path, std::ios::binary) << "short";
  EXPECT_THAT(SafetensorsFile::open(path).error().message, HasSubstr(path));
  std::filesystem::remove(path);
  const auto missing = SafetensorsFile::open(path);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(SafetensorsFile::open(::testing::TempDir()));
}

}  // namespace
}  // namespace saccade
