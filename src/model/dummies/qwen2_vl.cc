// Checkpoints of random weights of Qwen2-VL.
#include <array>

#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  bool tied;
  std::int64_t vocab, pieces;
  std::array<int, 3> sections;
  std::int64_t depth, embed, vision_heads;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, true, 1280, 1200, {4, 6, 6}, 4, 128, 4},
    DummySize{"2b", 1536, 8960, 28, 12, 2, true, 151936, 151643, {16, 24, 24}, 32, 1280, 16},
    DummySize{"7b", 3584, 18944, 28, 28, 4, false, 152064, 151643, {16, 24, 24}, 32, 1280, 16},
    DummySize{"72b", 8192, 29568, 80, 64, 8, false, 152064, 151643, {16, 24, 24}, 32, 1280, 16},
};
constexpr auto kDummyNames = names_of(kDummySizes);

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl",
 "bos_token_id": {bos}, "eos_token_id": {eos}, "vision_start_token_id": {start}, "vision_end_token_id": {end},
 "vision_token_id": {pad}, "image_token_id": {image}, "video_token_id": {video},
 "hidden_act": "silu", "hidden_size": {hidden}, "intermediate_size": {intermediate}, "num_hidden_layers": {layers},
 "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "max_position_embeddings": 32768,
 "use_sliding_window": false, "sliding_window": 32768, "max_window_layers": {layers}, "rms_norm_eps": 1e-06,
 "rope_theta": 1000000.0, "rope_scaling": {{"type": "mrope", "mrope_section": [{t}, {h}, {w}]}},
 "tie_word_embeddings": {tied}, "torch_dtype": "bfloat16", "vocab_size": {vocab},
 "vision_config": {{"depth": {depth}, "embed_dim": {embed}, "num_heads": {vision_heads}, "mlp_ratio": 4,
  "in_chans": 3, "hidden_size": {hidden}, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
  "temporal_patch_size": 2}}}}
)",
      arg("bos", s.pieces), arg("eos", s.pieces + 2), arg("start", s.pieces + 9),
      arg("end", s.pieces + 10), arg("pad", s.pieces + 11), arg("image", s.pieces + 12),
      arg("video", s.pieces + 13), arg("hidden", s.hidden), arg("intermediate", s.intermediate),
      arg("layers", s.layers), arg("heads", s.heads), arg("kv_heads", s.kv_heads),
      arg("t", s.sections[0]), arg("h", s.sections[1]), arg("w", s.sections[2]),
      arg("tied", s.tied), arg("vocab", s.vocab), arg("depth", s.depth), arg("embed", s.embed),
      arg("vision_heads", s.vision_heads));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const DummySize& s = size_named(kDummySizes, size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(s)},
      {"generation_config.json",
       qwen_generation_config(s.pieces, R"("temperature": 0.01, "top_p": 0.001, "top_k": 1)")},
      {"preprocessor_config.json", qwen_preprocessor_config("Qwen2VLProcessor")}};
  describe_qwen_tokenizer(s.pieces, kQwenVisionTokens, qwen_vision_template(true), checkpoint);
  return checkpoint;
}

}  // namespace

extern const DummySizes kQwen2VlDummies;
const DummySizes kQwen2VlDummies = {kDummyNames, dummy};

}  // namespace saccade
