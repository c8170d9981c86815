#include "model/gguf/gguf_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/rng.h"
#include "tests/support/gguf_bytes.h"

namespace saccade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const Result<GgufHeader>& header) {
  return header ? "no error" : header.error().message;
}
Result<GgufHeader> parse_header(const std::string& file) {
  return parse_gguf(std::as_bytes(std::span(file)));
}

// A file with a value of every type and two tensors.
TestGguf usual() {
  TestGguf file;
  file.text("general.architecture", "qwen2");
  file.number<std::uint32_t>("a.uint", 4, 7);
  file.number<std::int32_t>("a.int", 5, -7);
  file.number<double>("a.float", 12, 0.5);
  file.number<std::uint8_t>("a.bool", 7, 1);
  file.texts("a.texts", {"one", "", "three"});
  file.numbers<std::int32_t>("a.ints", 5, {1, -2, 3});
  file.numbers<float>("a.floats", 6, {0.5f, 2.0f});
  file.tensor("matrix", {3, 64}, 8, std::string(3 * 2 * 34, 'q'));
  file.tensor("vector", {5}, 0, std::string(20, 'f'));
  return file;
}

TEST(GgufHeader, ReadsWhatIsThere) {
  const std::string file = usual().bytes();
  const auto header = parse_header(file);
  ASSERT_TRUE(header) << refusal(header);
  const GgufMetadata& metadata = header->metadata;
  EXPECT_EQ(*metadata.get_string("general.architecture"), "qwen2");
  EXPECT_EQ(*metadata.get_int("a.uint"), 7);
  EXPECT_EQ(*metadata.get_int("a.int"), -7);
  EXPECT_EQ(*metadata.get_double("a.float"), 0.5);
  EXPECT_EQ(*metadata.get_double("a.int"), -7);
  EXPECT_TRUE(*metadata.get_bool_or("a.bool", false));
  EXPECT_THAT(*metadata.get_strings("a.texts"), ElementsAre("one", "", "three"));
  EXPECT_THAT(*metadata.get_ints("a.ints"), ElementsAre(1, -2, 3));
  EXPECT_THAT(*metadata.get_doubles("a.floats"), ElementsAre(0.5, 2.0));
  EXPECT_EQ(*metadata.get_int_or("none", 3), 3);
  EXPECT_THAT(metadata.get_int("a.float").error().message, HasSubstr("a.float is not an integer"));
  EXPECT_THAT(metadata.get_int("none").error().message, HasSubstr("none is missing"));
  EXPECT_FALSE(metadata.get_strings("a.ints"));

  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].name, "matrix");
  EXPECT_EQ(header->tensors[0].type, "Q8_0");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(3, 64));
  EXPECT_EQ(header->tensors[0].end, 204U);
  EXPECT_EQ(header->tensors[1].begin, 224U);
  EXPECT_EQ(header->data % 32, 0U);
  EXPECT_EQ(file[header->data], 'q');
}

// Of a file that is cut anywhere something is said, and nothing is read behind its end.
// They would become configurations, which are JSON and have none.
TEST(GgufHeader, NumbersAreFinite) {
  TestGguf file;
  file.number<float>("nan", 6, std::numeric_limits<float>::quiet_NaN());
  file.number<double>("infinite", 12, -std::numeric_limits<double>::infinity());
  file.numbers<float>("list", 6, {0.5f, std::numeric_limits<float>::infinity()});
  const std::string bytes = file.bytes();
  const auto header = parse_header(bytes);
  ASSERT_TRUE(header) << refusal(header);
  const GgufMetadata& metadata = header->metadata;
  EXPECT_THAT(metadata.get_double("nan").error().message, HasSubstr("nan is nan, a finite number"));
  EXPECT_THAT(metadata.get_double_or("infinite", 1).error().message, HasSubstr("infinite is -inf"));
  EXPECT_THAT(metadata.get_doubles("list").error().message, HasSubstr("list is inf"));
}

TEST(GgufHeader, RefusesEveryCut) {
  const std::string file = usual().bytes();
  for (std::size_t length = 0; length < file.size(); ++length) {
    const auto header = parse_header(std::string(file.data(), length));
    if (header) ADD_FAILURE() << "accepted " << length << " of " << file.size() << " bytes";
  }
  EXPECT_TRUE(parse_header(file));
}

// Whatever byte is changed, what is accepted lies in the file.
TEST(GgufHeader, WhatIsAcceptedIsThere) {
  const std::string file = usual().bytes();
  const std::size_t end = parse_header(file)->data;
  Rng rng(5);
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < end; ++at) {
    for (const char change : {'\x01', '\x80', '\xff', static_cast<char>(rng.below(255) + 1)}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const auto header = parse_header(changed);
      if (!header) continue;
      ++accepted;
      std::size_t position = 0;
      for (const GgufTensor& tensor : header->tensors) {
        EXPECT_GE(tensor.begin, position);
        EXPECT_LE(header->data + tensor.end, changed.size());
        position = tensor.end;
      }
    }
  }
  EXPECT_GT(accepted, 100U);  // names and values may be anything
}

TEST(GgufHeader, ErrorsNameTheField) {
  std::string file = usual().bytes();
  file[0] = 'X';
  EXPECT_THAT(refusal(parse_header(file)), HasSubstr("not with GGUF's mark"));
  file = usual().bytes();
  file[4] = 1;
  EXPECT_THAT(refusal(parse_header(file)), HasSubstr("GGUF of version 1; 2 and 3 are read"));
  file[4] = 0;
  file[7] = 3;
  EXPECT_THAT(refusal(parse_header(file)), HasSubstr("whose bytes go the other way"));
  file = usual().bytes();
  file[15] = 1;
  EXPECT_THAT(refusal(parse_header(file)), HasSubstr("tensors, limit 1048576"));

  const auto with = [](auto&& add) {
    TestGguf changed = usual();
    add(changed);
    return refusal(parse_header(changed.bytes()));
  };
  EXPECT_THAT(with([](TestGguf& g) { g.number<std::uint32_t>("a.uint", 4, 1); }),
              HasSubstr("a.uint is there twice"));
  EXPECT_THAT(with([](TestGguf& g) { g.number<std::uint64_t>("large", 10, ~0ULL); }),
              HasSubstr("large is 18446744073709551615, limit"));
  EXPECT_THAT(with([](TestGguf& g) { g.number<std::uint32_t>("odd", 13, 1); }),
              HasSubstr("odd is of type 13, types are 0 to 12"));
  EXPECT_THAT(with([](TestGguf& g) { g.number<std::uint32_t>("general.alignment", 4, 24); }),
              HasSubstr("general.alignment is 24, a power of two"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("new", {2, 4}, 16, "x"); }),
              HasSubstr("tensor \"new\" is IQ2_XXS"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("new", {2, 4}, 99, "x"); }),
              HasSubstr("tensor \"new\" is of type 99"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("new", {2, 40}, 8, "x"); }),
              HasSubstr("rows of 40, Q8_0 has blocks of 32"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("vector", {1}, 0, "abcd"); }),
              HasSubstr("tensor \"vector\" is there twice"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("new", {1, 1, 1, 1, 1}, 0, "abcd"); }),
              HasSubstr("has 5 extents, 1 to 4 are possible"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("new", {}, 0, "abcd"); }),
              HasSubstr("tensor \"new\" has 0 extents, 1 to 4 are possible"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("new", {1LL << 40, 1LL << 40}, 0, "abcd"); }),
              HasSubstr("has an extent of 1099511627776"));
  EXPECT_THAT(with([](TestGguf& g) { g.tensor("new", {100}, 0, "abcd"); }),
              HasSubstr("the data have"));
}

}  // namespace
}  // namespace saccade
