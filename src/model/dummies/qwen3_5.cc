// Checkpoints of random weights of Qwen3.5, with images and without.
#include <array>
#include <utility>

#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  bool tied;
  std::int64_t vocab, pieces;
  std::int64_t key_heads, value_heads, delta_dim;
  std::array<int, 3> sections;
  std::int64_t depth, embed, inner, vision_heads, positions;
};
constexpr std::array<int, 3> kSections = {11, 11, 10};
constexpr std::array kDummySizes = {
    DummySize{
        "tiny", 128, 256, 4, 4, 2, 32, true, 1280, 1200, 2, 4, 32, {2, 1, 1}, 4, 128, 252, 4, 64},
    DummySize{"0.8b", 1024, 3584, 24, 8, 2, 256, true, 248320, 248044, 16, 16, 128, kSections, 12,
              768, 3072, 12, 2304},
};
constexpr auto kDummyNames = names_of(kDummySizes);

constexpr std::string_view kPreprocessorConfig =
    R"({"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, )"
    R"("merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
    R"("processor_class": "Qwen3VLProcessor", "image_processor_type": "Qwen2VLImageProcessorFast"})";

constexpr std::string_view kVideoPreprocessorConfig =
    R"({"size": {"longest_edge": 25165824, "shortest_edge": 4096}, "patch_size": 16, "temporal_patch_size": 2, )"
    R"("merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
    R"("processor_class": "Qwen3VLProcessor", "video_processor_type": "Qwen3VLVideoProcessor"})";

// The members of text_config, or of a text model's file.
std::string text_fields(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"("attention_bias": false, "attn_output_gate": true, "bos_token_id": {bos}, "dtype": "bfloat16",
  "eos_token_id": {eos}, "full_attention_interval": 4, "head_dim": {head_dim}, "hidden_act": "silu",
  "hidden_size": {hidden}, "intermediate_size": {intermediate}, "linear_conv_kernel_dim": 4,
  "linear_key_head_dim": {delta_dim}, "linear_num_key_heads": {key_heads}, "linear_num_value_heads": {value_heads},
  "linear_value_head_dim": {delta_dim}, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144,
  "model_type": "qwen3_5_text", "num_attention_heads": {heads}, "num_hidden_layers": {layers},
  "num_key_value_heads": {kv_heads}, "rms_norm_eps": 1e-06,
  "rope_parameters": {{"mrope_interleaved": true, "mrope_section": [{t}, {h}, {w}], "partial_rotary_factor": 0.25,
   "rope_theta": 10000000, "rope_type": "default"}}, "tie_word_embeddings": {tied}, "vocab_size": {vocab})",
      arg("bos", s.pieces), arg("eos", s.pieces + 2), arg("head_dim", s.head_dim),
      arg("hidden", s.hidden), arg("intermediate", s.intermediate), arg("delta_dim", s.delta_dim),
      arg("key_heads", s.key_heads), arg("value_heads", s.value_heads), arg("heads", s.heads),
      arg("layers", s.layers), arg("kv_heads", s.kv_heads), arg("t", s.sections[0]),
      arg("h", s.sections[1]), arg("w", s.sections[2]), arg("tied", s.tied), arg("vocab", s.vocab));
}

std::string vision_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
 "image_token_id": {image}, "video_token_id": {video}, "vision_start_token_id": {start}, "vision_end_token_id": {end},
 "tie_word_embeddings": {tied},
 "text_config": {{{text}}},
 "vision_config": {{"deepstack_visual_indexes": [], "depth": {depth}, "hidden_act": "gelu_pytorch_tanh",
  "hidden_size": {embed}, "in_channels": 3, "intermediate_size": {inner}, "model_type": "qwen3_5", "num_heads": {vision_heads},
  "num_position_embeddings": {positions}, "out_hidden_size": {hidden}, "patch_size": 16, "spatial_merge_size": 2,
  "temporal_patch_size": 2}}}}
)",
      arg("image", s.pieces + 12), arg("video", s.pieces + 13), arg("start", s.pieces + 9),
      arg("end", s.pieces + 10), arg("tied", s.tied), arg("text", text_fields(s)),
      arg("depth", s.depth), arg("embed", s.embed), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("positions", s.positions), arg("hidden", s.hidden));
}

DummyFile generation_config(const DummySize& s) {
  return {"generation_config.json",
          qwen_generation_config(s.pieces, R"("temperature": 0.6, "top_k": 20, "top_p": 0.95)")};
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const DummySize& s = size_named(kDummySizes, size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {{"config.json", vision_config(s)},
                      generation_config(s),
                      {"preprocessor_config.json", std::string(kPreprocessorConfig)},
                      {"video_preprocessor_config.json", std::string(kVideoPreprocessorConfig)}};
  describe_qwen_tokenizer(s.pieces, kQwenVisionTokens, qwen_vision_template(false), checkpoint);
  return checkpoint;
}

Result<DummyCheckpoint> dummy_text(std::string_view size) {
  const DummySize& s = size_named(kDummySizes, size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json",
       fmt::format("{{\"architectures\": [\"Qwen3_5ForCausalLM\"],\n  {}}}\n", text_fields(s))},
      generation_config(s)};
  describe_qwen_tokenizer(s.pieces, kQwen3Tokens, kQwen3Template, checkpoint);
  return checkpoint;
}

}  // namespace

extern const DummySizes kQwen35Dummies;
const DummySizes kQwen35Dummies = {kDummyNames, dummy};
extern const DummySizes kQwen35TextDummies;
const DummySizes kQwen35TextDummies = {kDummyNames, dummy_text};

}  // namespace saccade
