// Adapters that are not what they should be: errors that name the file, the module, the tensor and
// the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/golden/lora_golden.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::AdapterTensor;
using test::golden_folder;
using ::testing::HasSubstr;

class LoraFiles : public ::testing::Test {
 protected:
  LoraFiles()
      : device_(*make_cpu_device(1, "portable")),
        model_(test::load(golden_folder("qwen2_vl/odd_heads"), *device_)),
        folder_(::testing::TempDir() + "/saccade_lora_files"),
        tensors_(test::random_adapter(*model_->network, 2, 1)) {
    fs::remove_all(folder_);
  }
  ~LoraFiles() override { fs::remove_all(folder_); }

  std::string error(const std::string& config, std::int64_t max_rank = 16) {
    test::write_adapter(folder_, config, tensors_);
    return error_of_folder(max_rank);
  }
  std::string error() { return error(test::plain_config(2, 2)); }
  std::string error_of_folder(std::int64_t max_rank = 16) {
    const auto adapter =
        LoraAdapter::load({"x", folder_, 1, max_rank}, model_->network->lora_targets());
    return adapter ? "" : adapter.error().message;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::string folder_;
  std::vector<AdapterTensor> tensors_;
};

TEST_F(LoraFiles, NamesWithAndWithoutPrefixesAreTheSame) {
  EXPECT_EQ(error(), "");
  const auto full = tensors_;
  for (const char* prefix :
       {"", "model.", "base_model.model.", "base_model.model.model.language_model.",
        "base_model.model.language_model.model.", "language_model.model."}) {
    tensors_ = full;
    for (AdapterTensor& tensor : tensors_)
      tensor.name = prefix + tensor.name.substr(tensor.name.find("layers."));
    EXPECT_EQ(error(), "") << prefix;
  }
}

TEST_F(LoraFiles, IdentityFollowsFromTheFilesAlone) {
  const auto identity = [&](const std::string& config) {
    EXPECT_EQ(error(config), "");
    return (*LoraAdapter::load({"x", folder_, 7, 16}, model_->network->lora_targets()))->identity();
  };
  const std::string first = identity(test::plain_config(2, 2));
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(identity(test::plain_config(2, 2)), first);
  EXPECT_NE(identity(test::plain_config(2, 4)), first);
  tensors_.front().values.front() += 1;
  EXPECT_NE(identity(test::plain_config(2, 2)), first);
}

TEST_F(LoraFiles, WhatIsNotThereIsNamed) {
  EXPECT_THAT(error_of_folder(), HasSubstr("No adapter found for " + folder_));
  EXPECT_EQ(error(), "");
  fs::remove(folder_ + "/adapter_model.safetensors");
  EXPECT_THAT(error_of_folder(), HasSubstr("there is no file adapter_model.safetensors"));
}

TEST_F(LoraFiles, TensorsThatDoNotFitAreNamed) {
  const auto full = tensors_;
  tensors_[0].shape = {1, 2 * full[0].shape[1]};
  EXPECT_THAT(error(), HasSubstr("tensor 'base_model.model.model.layers.0.self_attn.q_proj.lora_A."
                                 "weight': shape [1, 192], the model's module takes [2, 96]"));
  tensors_ = full;
  tensors_.pop_back();
  EXPECT_THAT(error(), HasSubstr("module 'model.layers.2.mlp.down_proj' has no lora_B.weight"));
  tensors_.pop_back();
  EXPECT_THAT(error(), HasSubstr("module 'model.layers.2.mlp.down_proj' has no lora_A.weight, and "
                                 "target_modules chooses it"));
  tensors_ = full;
  tensors_[1].values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error(), HasSubstr("q_proj.lora_B.weight' has a number that is not finite"));
  tensors_[1].values[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(error(), HasSubstr("q_proj.lora_B.weight' has a number that is not finite"));
  tensors_ = full;
  tensors_[0].name += "x";
  EXPECT_THAT(error(), HasSubstr("lora_A.weightx': neither a lora_A.weight nor a lora_B.weight"));
  tensors_ = full;
  tensors_.push_back(
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", {2}, {1, 1}});
  EXPECT_THAT(error(), HasSubstr("DoRA (lora_magnitude_vector) is not supported"));
  tensors_.clear();
  EXPECT_THAT(error(), HasSubstr("no lora_A and lora_B matrices"));
}

std::string with_pattern(const std::string& member, const std::string& value) {
  std::string config = test::plain_config(2, 2);
  config.insert(config.rfind('}'), fmt::format(", \"{}\": {}", member, value));
  return config;
}

// `count` members whose keys are as `key` makes them.
std::string numbers(int count, const std::function<std::string(int)>& key) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    text += i == 0 ? "" : ", ";
    json::append_quoted(text, key(i));
    text += ": 2";
  }
  return text + "}";
}

// Expressions are tried for each module of the model, on a worker, while others wait for it.
TEST_F(LoraFiles, ExpressionsAreBoundedInNumberStepsAndTime) {
  const auto pattern = [](const std::string& member, const std::string& value) {
    return with_pattern(member, value);
  };
  for (const char* const member : {"rank_pattern", "alpha_pattern"}) {
    EXPECT_EQ(error(pattern(member, numbers(1000, [](int i) { return fmt::format("x{}.q", i); }))),
              "");
    EXPECT_THAT(
        error(pattern(member, numbers(20'000, [](int i) { return fmt::format("x{}(a|b)*", i); }))),
        HasSubstr(fmt::format("{} has 20000 entries, the limit is 4096", member)));
    EXPECT_THAT(error(pattern(member, numbers(1, [](int) { return std::string(2049, 'a'); }))),
                HasSubstr("an expression of 2049 bytes, the limit is 2048"));
    // What the JIT of PCRE2 gives no limit to, and what it counts anew at each place.
    for (const char* const slow : {"(.*)*[!?]", "(?=(?:.|..)*[!?])[a-z]", "x)|(?:(?:.|..)*[!?]"})
      EXPECT_THAT(error(pattern(member, numbers(1, [&](int) { return slow; }))),
                  HasSubstr(fmt::format("{}: takes over 100000 steps", member)))
          << slow;
  }
  // As many as there may be, each within its steps, take many times what all may.
  EXPECT_THAT(
      error(pattern("rank_pattern",
                    numbers(4096, [](int i) { return fmt::format("(?:.|..){{1,14}}[!?]{}", i); }))),
      HasSubstr("its expressions take over 2 s"));
  EXPECT_THAT(error(pattern("exclude_modules", "\"(.*)*[!?]\"")),
              HasSubstr("takes over 100000 steps"));
  std::string prefix;
  while (prefix.size() < 512) prefix += "model.";
  for (AdapterTensor& tensor : tensors_)
    tensor.name = prefix + tensor.name.substr(tensor.name.find("layers."));
  EXPECT_THAT(error(), HasSubstr("a module's name of"));
}

TEST_F(LoraFiles, OtherModulesAreRefusedByName) {
  const auto full = tensors_;
  for (const char* module :
       {"model.visual.blocks.0.attn.qkv", "model.layers.3.self_attn.q_proj", "lm_head",
        "model.embed_tokens", "model.layers.0.mlp.experts.1.up_proj",
        "vision_tower.encoder.layers.0.self_attn.q_proj"}) {
    tensors_ = full;
    for (const char* matrix : {".lora_A.weight", ".lora_B.weight"})
      tensors_.push_back(
          {std::string("base_model.model.") + module + matrix, {2, 2}, {1, 1, 1, 1}});
    EXPECT_THAT(error(), HasSubstr(fmt::format("module '{}' is not supported", module)));
  }
}

// PEFT writes the model's own matrix along, which makes the file larger than any that is read.
TEST_F(LoraFiles, AdaptersOfEmbeddingsAreRefusedAsSuch) {
  const auto full = tensors_;
  for (const char* name : {"lora_embedding_A", "lora_embedding_B", "base_layer.weight"}) {
    for (const std::int64_t rows : {2, 4'000'000}) {
      tensors_ = full;
      tensors_.push_back({fmt::format("base_model.model.model.embed_tokens.{}", name),
                          {rows, 4},
                          std::vector<float>(static_cast<std::size_t>(rows * 4))});
      EXPECT_THAT(error(), HasSubstr("adapters of embeddings are not supported")) << name << rows;
    }
  }
  tensors_ = full;
  EXPECT_THAT(error(R"({"r": 2, "lora_alpha": 2, "target_modules": ["q_proj", "embed_tokens"]})"),
              HasSubstr("target_modules names 'embed_tokens': adapters of embeddings are not"));
}

TEST_F(LoraFiles, RanksAreBounded) {
  EXPECT_THAT(error(test::plain_config(2, 2), 1),
              HasSubstr("has rank 2, the limit is 1 (--max-lora-rank)"));
  EXPECT_THAT(error(R"({"r": 2, "lora_alpha": 2, "target_modules": "all-linear",
                        "rank_pattern": {"k_proj": 9}})",
                    8),
              HasSubstr("k_proj' has rank 9, the limit is 8"));
  for (const char* const rank : {"0.5", "1.5", "4097", "1e300"})
    EXPECT_THAT(error(with_pattern("rank_pattern", fmt::format(R"({{"k_proj": {}}})", rank))),
                HasSubstr("k_proj' has rank"))
        << rank;
  for (AdapterTensor& tensor : tensors_) {
    if (tensor.name.find("k_proj") == std::string::npos) continue;
    tensor.shape[tensor.name.find("lora_A") == std::string::npos ? 1 : 0] = 0;
    tensor.values.clear();
  }
  EXPECT_THAT(error(with_pattern("rank_pattern", R"({"k_proj": 0.5})")),
              HasSubstr("k_proj' has rank 0.5 by rank_pattern, a whole number of 1 to 4096"));
  EXPECT_THAT(error(test::plain_config(3, 2)), HasSubstr("takes [3, 112]"));
}

TEST_F(LoraFiles, HalfAFileIsRefused) {
  EXPECT_EQ(error(), "");
  const std::string path = folder_ + "/adapter_model.safetensors";
  const auto size = fs::file_size(path);
  for (const std::uintmax_t keep :
       {std::uintmax_t{0}, std::uintmax_t{7}, std::uintmax_t{40}, size / 2, size - 1}) {
    fs::resize_file(path, keep);
    const std::string said = error_of_folder();
    EXPECT_THAT(said, HasSubstr(path)) << keep;
    test::write_adapter(folder_, test::plain_config(2, 2), tensors_);
  }
  fs::resize_file(path, size + (std::uintmax_t{64} << 20));
  EXPECT_THAT(error_of_folder(), HasSubstr("bytes, the limit is"));
}

TEST_F(LoraFiles, ConfigurationsSayWhatIsWrong) {
  struct Case {
    const char* members;
    const char* said;
  };
  for (const Case& each : {
           Case{R"("use_dora": true)", "use_dora true is not supported"},
           Case{R"("modules_to_save": ["lm_head"])", R"(modules_to_save ["lm_head"] is not)"},
           Case{R"("bias": "all")", "bias all is not supported"},
           Case{R"("fan_in_fan_out": true)", "fan_in_fan_out true is not supported"},
           Case{R"("lora_bias": true)", "lora_bias true is not supported"},
           Case{R"("layer_replication": [[0, 4]])", "layer_replication [[0,4]] is not supported"},
           Case{R"("target_parameters": ["x"])", "target_parameters"},
           Case{R"("trainable_token_indices": [1])", "trainable_token_indices"},
           Case{R"("init_lora_weights": "pissa")", "init_lora_weights \"pissa\" is not supported"},
           Case{R"("layers_pattern": "blocks")", "layers_pattern \"blocks\" is not supported"},
           Case{R"("peft_type": "LOHA")", "peft_type LOHA is not supported"},
           Case{R"("something_new": 3)", "something_new 3 is not supported"},
           Case{R"("r": 0)", "r is 0, 1 to 4096 is possible"},
           Case{R"("r": "8")", "r"},
           Case{R"("target_modules": 3)", "target_modules 3 is no list"},
           Case{R"("target_modules": "(")", "target_modules: the expression '('"},
           Case{R"("rank_pattern": {"q_proj": -1})", "rank_pattern: 'q_proj' is -1"},
           Case{R"("layers_to_transform": ["a"])", "layers_to_transform [\"a\"] is no list"},
           Case{R"("target_modules": ["q_proj"])", "is not one that target_modules chooses"},
       }) {
    json::object config =
        json::parse(R"({"r": 2, "lora_alpha": 2, "target_modules": "all-linear"})")
            .value()
            .get_object();
    const json::value more = json::parse("{" + std::string(each.members) + "}").value();
    for (const auto& member : more.get_object()) config[member.key()] = member.value();
    std::string text;
    json::JsonWriter(text).value(json::value(config));
    EXPECT_THAT(error(text), HasSubstr(each.said)) << each.members;
    EXPECT_THAT(error(text), HasSubstr("adapter_")) << each.members;
  }
  EXPECT_THAT(error("{"), HasSubstr("adapter_config.json"));
  EXPECT_THAT(error("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error(R"({"r": 2, "lora_alpha": 2})"), HasSubstr("target_modules is missing"));
}

// What says nothing about the result is taken, whatever it is.
TEST_F(LoraFiles, OtherMembersOfPeftAreTaken) {
  EXPECT_EQ(error(R"({"alora_invocation_tokens": null, "auto_mapping": null, "bias": "none",
      "base_model_name_or_path": "x", "corda_config": null, "eva_config": {"rho": 2.0},
      "inference_mode": true, "init_lora_weights": "gaussian", "layer_replication": null,
      "layers_pattern": null, "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 4,
      "lora_dropout": 0.1, "megatron_config": null, "megatron_core": "megatron.core",
      "modules_to_save": null, "peft_type": "LORA", "peft_version": "0.19.1",
      "qalora_group_size": 16, "r": 2, "rank_pattern": {}, "revision": null,
      "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
      "down_proj"], "target_parameters": null, "task_type": "CAUSAL_LM", "use_dora": false,
      "use_qalora": false, "use_rslora": true})"),
            "");
}

}  // namespace
}  // namespace saccade
