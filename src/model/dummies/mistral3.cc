// Checkpoints of random weights of Mistral 3 and of Pixtral.
#include <array>

#include "model/dummies/tekken_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  std::int64_t vocab, max_position;
  double theta;
  std::int64_t depth, width, inner, vision_heads, patch, edge;
};
constexpr std::array kMistral3Sizes = {
    DummySize{"tiny", 160, 256, 4, 4, 2, 32, 1280, 2048, 1e6, 4, 64, 152, 4, 14, 280},
    DummySize{"24b", 5120, 32768, 40, 32, 8, 128, 131072, 131072, 1e9, 24, 1024, 4096, 16, 14,
              1540},
};
constexpr std::array kPixtralSizes = {
    DummySize{"tiny", 160, 256, 4, 4, 2, 32, 1280, 2048, 1e6, 4, 64, 152, 4, 16, 160},
    DummySize{"12b", 5120, 14336, 40, 32, 8, 128, 131072, 1024000, 1e9, 24, 1024, 4096, 16, 16,
              1024},
};
constexpr auto kMistral3Names = names_of(kMistral3Sizes);
constexpr auto kPixtralNames = names_of(kPixtralSizes);

// `around` are the members that the two classes do not share.
std::string dummy_config(const DummySize& s, std::string_view around) {
  using fmt::arg;
  return fmt::format(
      R"({{{around}, "image_token_index": 10, "projector_hidden_act": "gelu", "vision_feature_layer": -1,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16",
 "text_config": {{"model_type": "mistral", "hidden_act": "silu", "hidden_size": {hidden}, "head_dim": {head_dim},
  "intermediate_size": {intermediate}, "num_hidden_layers": {layers}, "num_attention_heads": {heads},
  "num_key_value_heads": {kv_heads}, "max_position_embeddings": {max_position}, "rms_norm_eps": 1e-05,
  "rope_theta": {theta:.1f}, "sliding_window": null, "vocab_size": {vocab}}},
 "vision_config": {{"model_type": "pixtral", "hidden_act": "silu", "hidden_size": {width}, "head_dim": {vision_dim},
  "intermediate_size": {inner}, "num_hidden_layers": {depth}, "num_attention_heads": {vision_heads},
  "num_channels": 3, "image_size": {edge}, "patch_size": {patch}, "rope_theta": 10000.0}}}}
)",
      arg("around", around), arg("hidden", s.hidden), arg("head_dim", s.head_dim),
      arg("intermediate", s.intermediate), arg("layers", s.layers), arg("heads", s.heads),
      arg("kv_heads", s.kv_heads), arg("max_position", s.max_position), arg("theta", s.theta),
      arg("vocab", s.vocab), arg("width", s.width), arg("vision_dim", s.width / s.vision_heads),
      arg("inner", s.inner), arg("depth", s.depth), arg("vision_heads", s.vision_heads),
      arg("edge", s.edge), arg("patch", s.patch));
}

std::string dummy_preprocessor(const DummySize& s) {
  return fmt::format(
      R"({{"do_convert_rgb": true, "do_normalize": true, "do_rescale": true, "do_resize": true,
 "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_processor_type": "PixtralImageProcessor",
 "image_std": [0.26862954, 0.26130258, 0.27577711], "patch_size": {0}, "processor_class": "PixtralProcessor",
 "resample": 3, "rescale_factor": 0.00392156862745098, "size": {{"longest_edge": {1}}}}}
)",
      s.patch, s.edge);
}

DummyCheckpoint dummy_of(const DummySize& size, std::string_view around, std::int64_t merge) {
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(size, around)},
      {"generation_config.json", tekken_generation_config()},
      {"preprocessor_config.json", dummy_preprocessor(size)},
      {"processor_config.json",
       fmt::format(R"({{"image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]", )"
                   R"("image_token": "[IMG]", "patch_size": {}, )"
                   R"("processor_class": "PixtralProcessor", "spatial_merge_size": {}}})",
                   size.patch, merge)}};
  describe_tekken(size.vocab, checkpoint);
  return checkpoint;
}

Result<DummyCheckpoint> mistral3(std::string_view name) {
  return dummy_of(
      size_named(kMistral3Sizes, name),
      R"("architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
 "multimodal_projector_bias": false, "spatial_merge_size": 2)",
      2);
}

Result<DummyCheckpoint> pixtral(std::string_view name) {
  return dummy_of(size_named(kPixtralSizes, name),
                  R"("architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
 "image_seq_length": 1, "vision_feature_select_strategy": "full")",
                  1);
}

}  // namespace

extern const DummySizes kMistral3Dummies;
const DummySizes kMistral3Dummies = {kMistral3Names, mistral3};

extern const DummySizes kPixtralDummies;
const DummySizes kPixtralDummies = {kPixtralNames, pixtral};

}  // namespace saccade
