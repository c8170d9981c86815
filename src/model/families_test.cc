// Configurations, and published metadata of real checkpoints where the shared data are there.
#include "model/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <set>

#include "model/checkpoint/weights.h"
#include "model/dummies/dummy_sizes.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kPublished = SACCADE_SOURCE_DIR "/../shared/data/published/";

std::string canonical(std::string_view name, const Family& family) {
  for (const NameAlias& alias : family.aliases)
    if (name.starts_with(alias.from))
      return std::string(alias.to) + std::string(name.substr(alias.from.size()));
  return std::string(name);
}

struct PublishedModel {
  std::string folder;
  std::string family;
  std::int64_t parameters;  // total_size of the index over two bytes
};

class Published : public ::testing::TestWithParam<PublishedModel> {};

// The table has exactly the tensors of the published index, and its shapes sum to the published
// size.
TEST_P(Published, TableIsTheIndex) {
  const std::string directory = kPublished + GetParam().folder;
  if (!fs::exists(directory + "/model.safetensors.index.json"))
    GTEST_SKIP() << directory << " is absent";
  const auto checkpoint = open_checkpoint(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto model = create_model(*checkpoint);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->shape().family, GetParam().family);
  const Family* family = family_of(checkpoint->config).value();

  const auto index = json::parse_file(directory + "/model.safetensors.index.json");
  ASSERT_TRUE(index) << index.error().message;
  std::set<std::string> published;
  for (const auto& member : index->get_object().at("weight_map").get_object())
    published.insert(canonical(member.key(), *family));
  const WeightTable table = model->network->weight_table();
  std::set<std::string> wanted;
  for (const TensorSpec& spec : table.specs())
    EXPECT_TRUE(wanted.insert(spec.name).second) << spec.name;
  EXPECT_EQ(wanted, published);
  EXPECT_EQ(parameter_count(table.specs()), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, Published,
    ::testing::Values(
        PublishedModel{"Qwen--Qwen2-VL-2B-Instruct", "qwen2-vl", 2208985600},
        PublishedModel{"Qwen--Qwen2-VL-7B-Instruct", "qwen2-vl", 8291375616},
        PublishedModel{"Qwen--Qwen2-VL-72B-Instruct", "qwen2-vl", 73405560320},
        PublishedModel{"Qwen--Qwen2.5-VL-3B-Instruct", "qwen2.5-vl", 3754622976},
        PublishedModel{"Qwen--Qwen2.5-VL-7B-Instruct", "qwen2.5-vl", 8292166656},
        PublishedModel{"llava-hf--llava-onevision-qwen2-7b-ov-hf", "llava-onevision", 8030807584},
        PublishedModel{"microsoft--Phi-3-vision-128k-instruct", "phi-3-vision", 4146621440},
        PublishedModel{"meta-llama--Meta-Llama-3-8B-Instruct", "llama-3", 8030261248}),
    [](const auto& model) {
      std::string name = model.param.folder;
      std::ranges::replace_if(
          name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
      return name;
    });

// Published configurations whose index is not at hand: derived shapes sum to the same size.
TEST(PublishedConfigurations, HaveTheirSize) {
  struct Model {
    const char* folder;
    const char* family;
    std::int64_t parameters;
  };
  for (const Model& published :
       {Model{"google--paligemma2-3b-pt-224", "paligemma2", 3032242416},
        Model{"google--paligemma2-10b-pt-896", "paligemma2", 9667062512},
        Model{"microsoft--Phi-3.5-vision-instruct", "phi-3-vision", 4146621440},
        Model{"google--gemma-3-27b-it", "gemma-3", 27432406640}}) {
    if (!fs::exists(kPublished + published.folder + "/config.json"))
      GTEST_SKIP() << kPublished << published.folder << " is absent";
    const auto checkpoint = open_checkpoint(kPublished + published.folder);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto model = create_model(*checkpoint);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->shape().family, published.family);
    EXPECT_EQ(parameter_count(model->network->weight_table().specs()), published.parameters);
  }
}

// A configuration that loads, to break one field of.
json::object tiny_config() {
  return json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/qwen2_vl/odd_heads/config.json")
      .value()
      .get_object();
}

std::string creation_error(const json::object& config) {
  const auto model = create_model({"dir", config, {}, {}});
  return model ? "" : model.error().message;
}

TEST(Families, RefuseWhatTheyCannotHonour) {
  EXPECT_EQ(creation_error(tiny_config()), "");
  struct Change {
    const char* field;
    const char* value;  // JSON
    const char* message;
  };
  for (const Change& change : {
           Change{"architectures", R"(["MambaForCausalLM"])", "MambaForCausalLM"},
           Change{"architectures", R"(["BertModel"])", "embeds texts and generates none"},
           Change{"architectures", R"(["Qwen2VLForSequenceClassification"])", "is not served"},
           Change{"hidden_size", "0", "hidden_size is 0"},
           Change{"hidden_size", "97", "no multiple of num_attention_heads"},
           Change{"hidden_size", "\"96\"", "hidden_size"},
           Change{"hidden_size", "1099511627776", "hidden_size"},
           Change{"num_attention_heads", "0", "num_attention_heads"},
           Change{"num_key_value_heads", "4", "no multiple of num_key_value_heads"},
           Change{"num_hidden_layers", "-1", "num_hidden_layers"},
           Change{"num_hidden_layers", "100000000", "num_hidden_layers"},
           Change{"hidden_act", "\"xielu\"", "xielu"},
           Change{"rope_scaling", R"({"type": "spiral", "mrope_section": [2, 3, 3]})", "spiral"},
           Change{"rope_scaling", R"({"type": "mrope", "mrope_section": [2, 3, 4]})",
                  "mrope_section"},
           Change{"rope_scaling", R"({"type": "mrope"})", "mrope_section"},
           Change{"rope_scaling", "7", "rope_scaling"},
           Change{"rope_theta", "-1", "rope_theta"},
           Change{"max_position_embeddings", "0", "max_position_embeddings is 0, 1 to 2147483648"},
           Change{"max_position_embeddings", "2147483649", "max_position_embeddings is 2147483649"},
           Change{"max_position_embeddings", "9223372036854775807", "max_position_embeddings"},
           Change{"layer_types", R"(["full_attention"])", "layer_types"},
           Change{"layer_types", R"(["full_attention", "full_attention", "linear_attention"])",
                  "linear_attention"},
           Change{"vision_config", "null", "vision_config"},
           Change{"vision_config", R"({"depth": 0})", "depth"},
           Change{"vision_config", R"({"patch_size": 16})", "patches"},
           Change{"quantization_config", R"({"quant_method": "bitsandbytes"})", "bitsandbytes"},
           Change{"eos_token_id", "{}", "eos_token_id"},
       }) {
    json::object config = tiny_config();
    config[change.field] = json::parse(change.value).value();
    EXPECT_THAT(creation_error(config), HasSubstr(change.message))
        << change.field << " " << change.value;
  }
}

json::object phi3_config() {
  return json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/phi_3_vision/su/config.json")
      .value()
      .get_object();
}

TEST(Families, LongRopeNeedsAllItsNumbers) {
  EXPECT_EQ(creation_error(phi3_config()), "");
  const auto with = [](const char* field, const char* value) {
    json::object config = phi3_config();
    config["rope_scaling"].get_object()[field] = json::parse(value).value();
    return creation_error(config);
  };
  EXPECT_THAT(with("long_factor", "[1, 2, 3]"), HasSubstr("long_factor"));
  EXPECT_THAT(with("short_factor", "null"), HasSubstr("short_factor"));
  EXPECT_THAT(with("short_factor", "[1, 1, 1, 1, 1, 1, 1, 0]"), HasSubstr("short_factor"));
  EXPECT_THAT(with("short_factor", R"([1, 1, 1, 1, 1, 1, 1, "2"])"), HasSubstr("short_factor"));
  EXPECT_THAT(with("type", R"("spiral")"), HasSubstr("spiral"));
  json::object config = phi3_config();
  config["original_max_position_embeddings"] = 0;
  EXPECT_THAT(creation_error(config), HasSubstr("original_max_position_embeddings is 0"));
}

TEST(Families, RefuseAnotherPhi3Vision) {
  struct Change {
    const char* section;  // empty: the top
    const char* field;
    const char* value;  // JSON
  };
  for (const Change& change : {
           Change{"", "sliding_window", "512"},
           Change{"", "partial_rotary_factor", "0.5"},
           Change{"", "img_processor", "null"},
           Change{"", "embd_layer", "null"},
           Change{"img_processor", "layer_idx", "0"},
           Change{"img_processor", "layer_idx", "-5"},
           Change{"img_processor", "type_feature", R"("cls_patch")"},
           Change{"img_processor", "image_size", "70"},
           Change{"img_processor", "num_img_tokens", "9"},
           Change{"img_processor", "image_dim_out", "40"},
           Change{"img_processor", "name", R"("siglip")"},
           Change{"embd_layer", "hd_transform_order", R"("glb_sub")"},
           Change{"embd_layer", "projection_cls", R"("linear")"},
           Change{"embd_layer", "use_hd_transform", "false"},
       }) {
    json::object config = phi3_config();
    const std::string_view section = change.section;
    json::object& at = section.empty() ? config : config[section].get_object();
    at[change.field] = json::parse(change.value).value();
    const std::string field = section.empty() ? change.field : change.section;
    EXPECT_THAT(creation_error(config), HasSubstr(field)) << change.field;
  }
}

// num_crops, max_pixels and max_tokens all mean tiles.
TEST(Families, Phi3VisionTakesFewerTilesOnRequest) {
  const auto model = Processor::open({"dir", phi3_config(), {}, {{"num_crops", 16}}}).value();
  const auto tiles = [&](const ImageControls& controls) {
    const auto layout = model->image_layout(500, 400, controls);
    return layout ? layout->grid_t - 1 : -1;
  };
  EXPECT_EQ(tiles({}), 16);
  ImageControls controls;
  controls.processor_kwargs = {{"num_crops", 4}};
  EXPECT_EQ(tiles(controls), 4);
  controls.max_pixels = 2 * 56 * 56;
  EXPECT_EQ(tiles(controls), 1);
  controls.max_pixels = 1;
  EXPECT_EQ(tiles(controls), 1);
  controls = {};
  controls.max_tokens = 50;
  EXPECT_EQ(tiles(controls), 9);
  controls.max_tokens = 1;
  EXPECT_EQ(tiles(controls), 1);
  controls = {};
  controls.processor_kwargs = {{"num_crops", 0}};
  EXPECT_EQ(tiles(controls), -1);
  controls.processor_kwargs = {{"crops", 4}};
  EXPECT_EQ(tiles(controls), -1);
  EXPECT_FALSE(model->image_layout(60000, 1, {}));
}

json::object qwen3_vl_config() {
  return json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/qwen3_vl/odd_heads/config.json")
      .value()
      .get_object();
}

TEST(Families, RefuseAnotherQwen3Vl) {
  const json::object patches = {{"patch_size", 16}};
  struct Change {
    const char* section;
    const char* field;
    const char* value;  // JSON
    const char* message;
  };
  const auto error_of = [&](const json::object& config) {
    const auto model = create_model({"dir", config, {}, patches});
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(error_of(qwen3_vl_config()), "");
  for (const Change& change : {
           Change{"text_config", "head_dim", "17", "head_dim 17"},
           Change{"text_config", "rope_scaling", R"({"mrope_section": [4, 2]})", "mrope_section"},
           Change{"text_config", "hidden_size", "64", "out_hidden_size is 96"},
           Change{"text_config", "num_hidden_layers", "1", "deepstack_visual_indexes names 2"},
           Change{"vision_config", "num_position_embeddings", "24", "num_position_embeddings 24"},
           Change{"vision_config", "patch_size", "14", "patches"},
           Change{"vision_config", "deepstack_visual_indexes", "[0, 3]", "holds 3"},
           Change{"vision_config", "deepstack_visual_indexes", "[2, 0]", "holds 0 after 2"},
           Change{"vision_config", "deepstack_visual_indexes", "[1, 1]", "holds 1 after 1"},
           Change{"vision_config", "deepstack_visual_indexes", "[-1]", "holds -1"},
           Change{"vision_config", "deepstack_visual_indexes", "7", "not a list"},
           Change{"vision_config", "deepstack_visual_indexes", "[\"1\"]", "holds a string"},
       }) {
    json::object config = qwen3_vl_config();
    config[change.section].get_object()[change.field] = json::parse(change.value).value();
    EXPECT_THAT(error_of(config), HasSubstr(change.message)) << change.field << " " << change.value;
  }
}

TEST(Families, Qwen3VlDummiesHaveThePublishedSizes) {
  const Family* family = find_family("qwen3-vl").value();
  struct Size {
    std::string_view name;
    std::int64_t parameters;
    std::size_t tensors;
    std::int64_t width;  // of an embedding row
  };
  for (const Size& size :
       {Size{"2b", 2127532032, 625, 4 * 2048}, Size{"4b", 4437815808, 713, 4 * 2560},
        Size{"8b", 8767123696, 750, 4 * 4096}, Size{"32b", 33357390064, 1058, 4 * 5120}}) {
    const DummyCheckpoint dummy = make_dummy(family->name, size.name);
    const auto model = create_model({"dummy",
                                     json::parse(dummy.files[0].text).value().get_object(),
                                     {},
                                     json::parse(dummy.files[2].text).value().get_object()});
    ASSERT_TRUE(model) << size.name << " " << model.error().message;
    const std::vector<TensorSpec> specs = model->network->weight_table().specs();
    EXPECT_EQ(parameter_count(specs), size.parameters) << size.name;
    EXPECT_EQ(model->shape().embedding_width(), size.width);
    EXPECT_EQ(model->shape().max_image_tokens, 16384);
    EXPECT_EQ(specs.size(), size.tensors) << size.name;
    for (const TensorSpec& spec : specs)  // as the hub names them
      EXPECT_TRUE(spec.name.starts_with("model.visual.") ||
                  spec.name.starts_with("model.language_model.") || spec.name == "lm_head.weight")
          << spec.name;
  }
}

TEST(Families, Qwen3DummiesHaveThePublishedSizes) {
  const Family* family = find_family("qwen3").value();
  struct Size {
    std::string_view name;
    std::int64_t parameters;
    std::size_t tensors;
  };
  for (const Size& size : {Size{"0.6b", 596049920, 310}, Size{"1.7b", 1720574976, 310},
                           Size{"4b", 4022468096, 398}, Size{"8b", 8190735360, 399},
                           Size{"14b", 14768307200, 443}, Size{"32b", 32762123264, 707}}) {
    const DummyCheckpoint dummy = make_dummy(family->name, size.name);
    const auto model =
        create_model({"dummy", json::parse(dummy.files[0].text).value().get_object(), {}, {}});
    ASSERT_TRUE(model) << size.name << " " << model.error().message;
    const std::vector<TensorSpec> specs = model->network->weight_table().specs();
    EXPECT_EQ(parameter_count(specs), size.parameters) << size.name;
    EXPECT_EQ(specs.size(), size.tensors) << size.name;
    EXPECT_EQ(model->shape().max_position, 40960);
  }
}

TEST(Families, Qwen3MixturesHaveThePublishedSizes) {
  struct Size {
    std::string_view family;
    std::string_view name;
    std::int64_t parameters;
    std::size_t tensors;
  };
  for (const Size& size : {Size{"qwen3-moe", "30b-a3b", 30532122624, 18867},
                           Size{"qwen3-moe", "235b-a22b", 235093634560, 36945},
                           Size{"qwen3-vl-moe", "30b-a3b", 31070754032, 882}}) {
    const DummyCheckpoint dummy = make_dummy(size.family, size.name);
    Checkpoint checkpoint = {
        "dummy", json::parse(dummy.files[0].text).value().get_object(), {}, {}};
    if (dummy.files.size() > 2)
      checkpoint.preprocessor = json::parse(dummy.files[2].text).value().get_object();
    const auto model = create_model(checkpoint);
    ASSERT_TRUE(model) << size.name << " " << model.error().message;
    EXPECT_EQ(model->shape().family, size.family);
    const std::vector<TensorSpec> specs = model->network->weight_table().specs();
    EXPECT_EQ(parameter_count(specs), size.parameters) << size.name;
    EXPECT_EQ(specs.size(), size.tensors) << size.name;
  }
}

TEST(Families, MixturesRefuseWhatTheyCannotHonour) {
  const auto tiny =
      json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/qwen3_moe/every_layer/config.json")
          .value()
          .get_object();
  EXPECT_EQ(creation_error(tiny), "");
  struct Change {
    const char* field;
    const char* value;  // JSON
    const char* message;
  };
  for (const Change& change :
       {Change{"num_experts", "-1", "num_experts is -1"},
        Change{"num_experts", "100000", "0 to 4096"}, Change{"num_experts", "\"7\"", "num_experts"},
        Change{"num_experts_per_tok", "8", "1 to num_experts = 7"},
        Change{"num_experts_per_tok", "0", "num_experts_per_tok is 0"},
        Change{"moe_intermediate_size", "0", "moe_intermediate_size is 0"},
        Change{"decoder_sparse_step", "0", "decoder_sparse_step is 0"},
        Change{"mlp_only_layers", "3", "mlp_only_layers"},
        Change{"mlp_only_layers", "[3]", "mlp_only_layers"},
        Change{"use_sliding_window", "true", "use_sliding_window"}}) {
    json::object config = tiny;
    config[change.field] = json::parse(change.value).value();
    EXPECT_THAT(creation_error(config), HasSubstr(change.message))
        << change.field << " " << change.value;
  }
  json::object config = tiny;
  config["mlp_only_layers"] = json::parse("[0, 2]").value();
  const auto model = create_model({"dir", config, {}, {}});
  ASSERT_TRUE(model) << model.error().message;
  std::size_t routers = 0;
  for (const TensorSpec& spec : model->network->weight_table().specs())
    routers += spec.name.ends_with("mlp.gate.weight") ? 1 : 0;
  EXPECT_EQ(routers, 1U);
}

// The model cards' way to 131,072 tokens, and heads of 128 where the file does not say.
TEST(Families, Qwen3ReadsWhatItsFilesSay) {
  json::object config =
      json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/qwen3/odd_heads/config.json")
          .value()
          .get_object();
  config["max_position_embeddings"] = 40960;
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  EXPECT_EQ(create_model({"dir", config, {}, {}}).value().shape().max_position, 131072);
  config.erase("head_dim");
  EXPECT_EQ(create_model({"dir", config, {}, {}}).value().shape().layers.front().head_dim, 128);
  config["mlp_bias"] = true;  // of other families
  EXPECT_EQ(creation_error(config), "");
  config["head_dim"] = 17;
  EXPECT_THAT(creation_error(config), HasSubstr("head_dim 17"));
}

TEST(Families, ImagesOfAFolderWithoutAPreprocessorSayTheirDefaults) {
  for (const char* name : {"qwen2_vl/odd_heads", "gemma3/pooled", "paligemma/first"}) {
    auto checkpoint = open_checkpoint(std::string(SACCADE_SOURCE_DIR "/tests/golden/") + name);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(image_defaults(*checkpoint).value(), "") << name;
    checkpoint->preprocessor = {};
    const auto defaults = image_defaults(*checkpoint);
    if (!defaults) continue;  // it is refused where sizes do not fit
    EXPECT_THAT(*defaults, HasSubstr("image_mean [")) << name;
    const std::size_t resample = defaults->find("resample");
    ASSERT_NE(resample, std::string::npos) << *defaults;
    EXPECT_EQ(defaults->find("resample", resample + 1), std::string::npos) << *defaults;
    EXPECT_EQ(defaults->find("max_pixels ") != std::string::npos,
              std::string_view(name).starts_with("qwen2_vl"))
        << *defaults;
  }
  const auto text = open_checkpoint(SACCADE_SOURCE_DIR "/tests/golden/qwen2/odd_heads");
  EXPECT_EQ(image_defaults(*text).value(), "");
}

TEST(Families, Gemma3RefusesWhatItCannotHonour) {
  const auto tiny = json::parse_file(SACCADE_SOURCE_DIR "/tests/golden/gemma3/pooled/config.json")
                        .value()
                        .get_object();
  EXPECT_EQ(creation_error(tiny), "");
  struct Change {
    const char* section;  // empty: the top
    const char* field;
    const char* value;  // JSON
  };
  for (const Change& change : {
           Change{"", "mm_tokens_per_image", "5"},
           Change{"", "mm_tokens_per_image", "16"},
           Change{"", "mm_tokens_per_image", "0"},
           Change{"", "mm_tokens_per_image", "-4"},
           Change{"", "image_token_index", "481"},
           Change{"text_config", "attention_bias", "true"},
           Change{"text_config", "use_bidirectional_attention", "true"},
           Change{"text_config", "final_logit_softcapping", "30.0"},
           Change{"text_config", "query_pre_attn_scalar", "0"},
           Change{"text_config", "sliding_window_pattern", "0"},
           Change{"text_config", "sliding_window", "0"},
           Change{"text_config", "rope_scaling", R"({"rope_type": "linear", "factor": 0})"},
           Change{"vision_config", "vision_use_head", "true"},
       }) {
    json::object config = tiny;
    const std::string_view section = change.section;
    json::object& at = section.empty() ? config : config[section].get_object();
    at[change.field] = json::parse(change.value).value();
    EXPECT_THAT(creation_error(config), HasSubstr(change.field)) << change.value;
  }
  const auto with_preprocessor = [&](const char* text) {
    const auto model = create_model({"dir", tiny, {}, json::parse(text).value().get_object()});
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(with_preprocessor(R"({"do_pan_and_scan": null})"), "");
  EXPECT_THAT(with_preprocessor(R"({"do_pan_and_scan": true})"), HasSubstr("do_pan_and_scan"));
  EXPECT_THAT(with_preprocessor(R"({"size": {"height": 70, "width": 70}})"), HasSubstr("70"));
}

TEST(Families, WindowsComeFromEitherForm) {
  for (const char* file : {"mixed_window/config.json", "mixed_window/other_form/config.json"}) {
    const auto config =
        json::parse_file(std::string(SACCADE_SOURCE_DIR "/tests/golden/qwen2_vl/") + file)
            .value()
            .get_object();
    const auto model = create_model({"dir", config, {}, {}});
    ASSERT_TRUE(model) << model.error().message;
    const ModelShape& shape = model->shape();
    ASSERT_EQ(shape.layers.size(), 4u);
    EXPECT_EQ(shape.layers[1].kind, LayerKind::kFull);
    EXPECT_EQ(shape.layers[1].window, 0);
    EXPECT_EQ(shape.layers[2].kind, LayerKind::kSlidingWindow);
    EXPECT_EQ(shape.layers[2].window, 24);
    EXPECT_EQ(shape.position_axes, 3);
  }
}

TEST(Families, RefusePixelsOfAnotherSize) {
  const auto model = Processor::open({"dir", tiny_config(), {}, {}}).value();
  const ImageLayout layout = model->image_layout(56, 56, {}).value();
  EXPECT_TRUE(model->prepare_image({56, 56, std::vector<std::uint8_t>(56 * 56 * 3)}, layout, {}));
  EXPECT_FALSE(model->prepare_image({28, 56, std::vector<std::uint8_t>(28 * 56 * 3)}, layout, {}));
}

TEST(Families, AreFoundByName) {
  EXPECT_EQ(find_family("qwen2-vl").value()->name, "qwen2-vl");
  EXPECT_THAT(find_family("gpt").error().message, HasSubstr("qwen2-vl"));
}

TEST(Families, TokenPromptsStayInsideTheVocabulary) {
  const auto model = Processor::open({"dir", tiny_config(), {}, {}}).value();
  EXPECT_EQ(model->wrap_tokens({0, 480}).value().positions.size(), 3u);
  EXPECT_THAT(model->wrap_tokens({481}).error().message, HasSubstr("481"));
  EXPECT_FALSE(model->wrap_tokens({-1}));
}

}  // namespace
}  // namespace saccade
