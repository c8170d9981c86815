#include "model/quantization/compressed_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "model/quantization/quantization.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Quantization parsed(const std::string& section) {
  const auto config = with_quantization_config("{\"a\": {\"b\": 1.50}\n}\n", section);
  EXPECT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->starts_with("{\"a\": {\"b\": 1.50},\n")) << *config;
  const auto quantization = parse_quantization(json::parse(*config).value().get_object());
  EXPECT_TRUE(quantization) << quantization.error().message;
  return **quantization;
}

TEST(CompressedConfig, SaysWhatIsReadAgain) {
  const Quantization four =
      parsed(compressed_config(4, {{"l.0.q_proj", 64}, {"l.0.o_proj", 64}}, {"lm_head"}));
  EXPECT_EQ(describe(four), "compressed-tensors, 4 bits, groups of 64");
  EXPECT_TRUE(four.symmetric);
  EXPECT_FALSE(four.activations);
  const Quantization eight = parsed(compressed_config(8, {{"l.0.q_proj", 0}}, {"lm_head"}));
  EXPECT_EQ(describe(eight), "bytes, activations too");
}

// The size of most is that of all Linears; others are named, by as few expressions as will do.
TEST(CompressedConfig, NamesGroupsOfOtherSizes) {
  const std::string text = compressed_config(4,
                                             {{"l.0.q_proj", 64},
                                              {"l.0.k_proj", 64},
                                              {"l.0.o_proj", 128},
                                              {"l.1.q_proj", 32},
                                              {"l.1.o_proj", 128},
                                              {"l.1.k_proj", 64}},
                                             {});
  EXPECT_THAT(text, HasSubstr("\"group_2\":{\"targets\":[\"Linear\"]"));
  EXPECT_THAT(text, HasSubstr("\"targets\":[\"re:.*[.]o_proj$\"]"));
  EXPECT_THAT(text, HasSubstr("\"targets\":[\"l.1.q_proj\"]"));
  EXPECT_THAT(text, Not(HasSubstr("k_proj")));
  EXPECT_EQ(describe(parsed(text)), "compressed-tensors, 4 bits, groups of several sizes");
}

TEST(CompressedConfig, GoesIntoObjectsAlone) {
  EXPECT_EQ(with_quantization_config("{}", "{}").value(), "{\n  \"quantization_config\": {}\n}\n");
  EXPECT_FALSE(with_quantization_config("[1]", "{}"));
  EXPECT_FALSE(with_quantization_config("{\"a\": 1", "{}"));
}

}  // namespace
}  // namespace saccade
