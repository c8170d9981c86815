// Checkpoints of random weights of Qwen3-VL, dense and with experts.
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
  std::array<int, 3> sections;
  std::int64_t depth, embed, inner, vision_heads, positions;
  std::string_view deepstack;
};
constexpr std::array<int, 3> kSections = {24, 20, 20};
constexpr std::array kDummySizes = {
    DummySize{
        "tiny", 128, 256, 4, 4, 2, 40, true, 1280, 1200, {8, 6, 6}, 4, 128, 252, 4, 64, "0, 2"},
    DummySize{"2b", 2048, 6144, 28, 16, 8, 128, true, 151936, 151643, kSections, 24, 1024, 4096, 16,
              2304, "5, 11, 17"},
    DummySize{"4b", 2560, 9728, 36, 32, 8, 128, true, 151936, 151643, kSections, 24, 1024, 4096, 16,
              2304, "5, 11, 17"},
    DummySize{"8b", 4096, 12288, 36, 32, 8, 128, false, 151936, 151643, kSections, 27, 1152, 4304,
              16, 2304, "8, 16, 24"},
    DummySize{"32b", 5120, 25600, 64, 64, 8, 128, false, 151936, 151643, kSections, 27, 1152, 4304,
              16, 2304, "8, 16, 24"},
};
constexpr auto kDummyNames = names_of(kDummySizes);

struct MoeSize {
  std::string_view name;
  DummySize dense;  // but for its MLP
  std::int64_t experts, per_token, expert_intermediate;
};
constexpr std::array kMoeSizes = {
    MoeSize{"tiny",
            {"", 128, 256, 4, 4, 2, 40, false, 1280, 1200, {8, 6, 6}, 4, 128, 252, 4, 64, "0, 2"},
            8,
            2,
            48},
    MoeSize{"30b-a3b",
            {"", 2048, 6144, 48, 32, 4, 128, false, 151936, 151643, kSections, 27, 1152, 4304, 16,
             2304, "8, 16, 24"},
            128,
            8,
            768},
    MoeSize{"235b-a22b",
            {"", 4096, 12288, 94, 64, 4, 128, false, 151936, 151643, kSections, 27, 1152, 4304, 16,
             2304, "8, 16, 24"},
            128,
            8,
            1536},
};
constexpr auto kMoeNames = names_of(kMoeSizes);

constexpr std::string_view kPreprocessorConfig =
    R"({"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, )"
    R"("merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
    R"("processor_class": "Qwen3VLProcessor", "image_processor_type": "Qwen2VLImageProcessorFast"})";

constexpr std::string_view kVideoPreprocessorConfig =
    R"({"size": {"longest_edge": 25165824, "shortest_edge": 4096}, "patch_size": 16, "temporal_patch_size": 2, )"
    R"("merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
    R"("processor_class": "Qwen3VLProcessor", "video_processor_type": "Qwen3VLVideoProcessor"})";

// Of the class `architecture`; `experts` is fields of the text, "" or with a comma at their end.
std::string dummy_config(const DummySize& s, std::string_view architecture, std::string_view type,
                         std::string_view experts) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["{architecture}"], "model_type": "{type}",
 "image_token_id": {image}, "video_token_id": {video}, "vision_start_token_id": {start}, "vision_end_token_id": {end},
 "tie_word_embeddings": {tied},
 "text_config": {{{experts}"attention_bias": false, "bos_token_id": {bos}, "dtype": "bfloat16", "eos_token_id": {eos},
  "head_dim": {head_dim}, "hidden_act": "silu", "hidden_size": {hidden}, "intermediate_size": {intermediate},
  "max_position_embeddings": 262144, "model_type": "{type}_text", "num_attention_heads": {heads},
  "num_hidden_layers": {layers}, "num_key_value_heads": {kv_heads}, "rms_norm_eps": 1e-06,
  "rope_scaling": {{"mrope_interleaved": true, "mrope_section": [{t}, {h}, {w}], "rope_type": "default"}},
  "rope_theta": 5000000, "tie_word_embeddings": {tied}, "vocab_size": {vocab}}},
 "vision_config": {{"deepstack_visual_indexes": [{deepstack}], "depth": {depth}, "hidden_act": "gelu_pytorch_tanh",
  "hidden_size": {embed}, "in_channels": 3, "intermediate_size": {inner}, "model_type": "{type}", "num_heads": {vision_heads},
  "num_position_embeddings": {positions}, "out_hidden_size": {hidden}, "patch_size": 16, "spatial_merge_size": 2,
  "temporal_patch_size": 2}}}}
)",
      arg("architecture", architecture), arg("type", type), arg("experts", experts),
      arg("image", s.pieces + 12), arg("video", s.pieces + 13), arg("start", s.pieces + 9),
      arg("end", s.pieces + 10), arg("tied", s.tied), arg("bos", s.pieces),
      arg("eos", s.pieces + 2), arg("head_dim", s.head_dim), arg("hidden", s.hidden),
      arg("intermediate", s.intermediate), arg("heads", s.heads), arg("layers", s.layers),
      arg("kv_heads", s.kv_heads), arg("t", s.sections[0]), arg("h", s.sections[1]),
      arg("w", s.sections[2]), arg("vocab", s.vocab), arg("deepstack", s.deepstack),
      arg("depth", s.depth), arg("embed", s.embed), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("positions", s.positions));
}

DummyCheckpoint checkpoint_of(const DummySize& s, std::string config) {
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", std::move(config)},
      {"generation_config.json",
       qwen_generation_config(
           s.pieces,
           R"("top_k": 20, "top_p": 0.8, "repetition_penalty": 1.0, "temperature": 0.7)")},
      {"preprocessor_config.json", std::string(kPreprocessorConfig)},
      {"video_preprocessor_config.json", std::string(kVideoPreprocessorConfig)}};
  describe_qwen_tokenizer(s.pieces, kQwenVisionTokens, qwen_vision_template(false), checkpoint);
  return checkpoint;
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const DummySize& s = size_named(kDummySizes, size);
  return checkpoint_of(s, dummy_config(s, "Qwen3VLForConditionalGeneration", "qwen3_vl", ""));
}

Result<DummyCheckpoint> dummy_moe(std::string_view size) {
  const MoeSize& s = size_named(kMoeSizes, size);
  const std::string experts = fmt::format(
      R"("decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": {}, "norm_topk_prob": true,
  "num_experts": {}, "num_experts_per_tok": {}, )",
      s.expert_intermediate, s.experts, s.per_token);
  return checkpoint_of(s.dense, dummy_config(s.dense, "Qwen3VLMoeForConditionalGeneration",
                                             "qwen3_vl_moe", experts));
}

}  // namespace

extern const DummySizes kQwen3VlDummies;
const DummySizes kQwen3VlDummies = {kDummyNames, dummy};
extern const DummySizes kQwen3VlMoeDummies;
const DummySizes kQwen3VlMoeDummies = {kMoeNames, dummy_moe};

}  // namespace saccade
