// What fields of config.json mean, against transformers: config_values.json, made by
// tools/goldens/config_values.py, and rope_values.json, made by rope_values.py (tables/); and
// checkpoints of tests/golden/variants, which say what few do.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "model/checkpoint/decoder_config.h"
#include "tests/golden/family_golden.h"

namespace saccade {
namespace {

using test::golden_folder;

json::object config_values() {
  return json::parse_file(golden_folder("config_values.json")).value().get_object();
}

// null: not said.
void say(json::object& section, const json::value& tied) {
  section.erase("tie_word_embeddings");
  if (!tied.is_null()) section["tie_word_embeddings"] = tied;
}

bool has_head(Loadable& network) {
  return std::ranges::any_of(network.weight_table().specs(), [](const TensorSpec& spec) {
    return spec.name.ends_with("lm_head.weight");
  });
}

TEST(Configurations, HeadsAreTiedWhereTheReferenceTiesThem) {
  const json::object values = config_values();
  for (const auto& [name, rows] : values.at("tied").as_object()) {
    SCOPED_TRACE(std::string(name));
    auto checkpoint = open_checkpoint(golden_folder(std::string(name)));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    for (const json::value& row : rows.as_array()) {
      SCOPED_TRACE(boost::json::serialize(row));
      say(checkpoint->config, row.at(0));
      if (json::value* text = checkpoint->config.if_contains("text_config"))
        say(text->get_object(), row.at(1));
      const auto model = create_model(*checkpoint);
      ASSERT_TRUE(model) << model.error().message;
      EXPECT_EQ(has_head(*model->network), !row.at(2).as_bool());
    }
  }
}

TEST(Configurations, FrequenciesAreTheReferences) {
  constexpr DecoderDefaults kDefaults = {.rope_theta = 10000, .max_position = 32768};
  const json::object values = config_values();
  for (const json::value& row : values.at("rope").as_array()) {
    const json::object& config = row.at("config").as_object();
    SCOPED_TRACE(boost::json::serialize(config));
    const std::int64_t head_dim = json::get_int_or(config, "head_dim", 256 / 4).value();
    const auto rope = parse_rope(config, head_dim, kDefaults);
    ASSERT_TRUE(rope) << rope.error().message;
    EXPECT_NEAR(rope->settings.scale, row.at("scale").to_number<double>(), 1e-6);
    const json::array& expected = row.at("inv_freq").as_array();
    ASSERT_EQ(rope->settings.inv_freq.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double frequency = expected[i].to_number<double>();
      EXPECT_NEAR(rope->settings.inv_freq[i], frequency, 1e-6 * frequency) << i;
    }
  }
}

// The frequencies of a sequence of `length`.
std::vector<float> frequencies_at(const RopeSettings& rope, std::int64_t length) {
  if (rope.short_length > 0 && length > rope.short_length) return rope.long_inv_freq;
  return frequencies_for(rope, length);
}

TEST(Configurations, EveryFieldOfEveryRopeTypeMeansWhatTheReferenceSays) {
  constexpr DecoderDefaults kDefaults = {.rope_theta = 10000, .max_position = 1024};
  const json::value rows = json::parse_file(golden_folder("tables/rope_values.json")).value();
  for (const json::value& row : rows.as_array()) {
    SCOPED_TRACE(boost::json::serialize(row.at("config")));
    const auto rope = parse_rope(row.at("config").as_object(), 16, kDefaults);
    ASSERT_TRUE(rope) << rope.error().message;
    EXPECT_NEAR(rope->settings.scale, row.at("scale").to_number<double>(), 1e-6);
    for (const json::value& at : row.at("at").as_array()) {
      const std::int64_t length = at.at("length").as_int64();
      const std::vector<float> made = frequencies_at(rope->settings, length);
      const json::array& expected = at.at("inv_freq").as_array();
      ASSERT_EQ(made.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double frequency = expected[i].to_number<double>();
        EXPECT_NEAR(made[i], frequency, 1e-6 * frequency) << i << " at " << length;
      }
    }
  }
  EXPECT_EQ(rows.as_array().size(), 265U);
}

// A sequence may be as long as YaRN stretches it.
TEST(Configurations, YarnMakesRoom) {
  const auto checkpoint = open_checkpoint(golden_folder("variants/yarn"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(create_model(*checkpoint).value().shape().max_position, 4 * 64);
}

TEST(Configurations, RefusesRopesThatAreNone) {
  for (const char* rope :
       {R"({"type": "yarn", "factor": 0})", R"({"type": "yarn", "factor": 2000})",
        R"({"type": "yarn", "factor": 2, "original_max_position_embeddings": 0})",
        R"({"type": "yarn", "factor": 2, "beta_fast": -1})",
        R"({"type": "yarn", "factor": 2, "truncate": 1})",
        R"({"type": "yarn", "factor": 2, "rope_theta": 1})"}) {
    json::object config;
    config["rope_scaling"] = json::parse(rope).value();
    EXPECT_FALSE(parse_rope(config, 64, {})) << rope;
  }
}

// --- checkpoints ---

struct Variant {
  const char* directory;
  std::vector<std::string> cases;
};
const std::vector<Variant> kVariants = {{"yarn", {"text", "long"}},
                                        {"yarn_stated", {"text", "long"}},
                                        {"biased", {"text"}},
                                        {"two_heads", {"text"}},
                                        {"head_alone", {"text"}},
                                        {"llava/checkpoint", {"one_image"}},
                                        {"qwen2_5_vl/checkpoint", {"one_image"}},
                                        {"qwen3_vl/checkpoint", {"one_image"}},
                                        {"internvl/checkpoint", {"one_image"}}};

class VariantGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(VariantGolden, EveryStageAgrees) {
  const auto device = test::make_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.directory);
    const std::string directory = golden_folder(std::string("variants/") + variant.directory);
    const auto model = test::load(directory, *device);
    ASSERT_NE(model, nullptr);
    for (const std::string& golden : variant.cases)
      test::expect_golden(*model, *device, directory, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, VariantGolden, ::testing::ValuesIn(test::f32_device_names()),
                         [](const auto& device) { return device.param; });

TEST(Variants, BothFormsOfACheckpointAreOneModel) {
  const auto device = make_reference_device();
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.directory);
    const std::string directory = golden_folder(std::string("variants/") + variant.directory);
    if (!std::filesystem::exists(directory + "/other_form")) continue;
    const std::string other = ::testing::TempDir() + "/saccade_other_variant";
    ASSERT_NO_FATAL_FAILURE(test::write_other_form(directory, other));
    const auto model = test::load(other, *device);
    ASSERT_NE(model, nullptr);
    test::expect_golden(*model, *device, directory, variant.cases.front());
    std::filesystem::remove_all(other);
  }
}

}  // namespace
}  // namespace saccade
