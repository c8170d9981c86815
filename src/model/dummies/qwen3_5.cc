// Checkpoints of random weights of Qwen3.5's text.
#include <array>

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
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, 32, true, 1280, 1200, 2, 4, 32, {2, 1, 1}},
    DummySize{"0.8b", 1024, 3584, 24, 8, 2, 256, true, 248320, 248044, 16, 16, 128, {11, 11, 10}},
};
constexpr auto kDummyNames = names_of(kDummySizes);

// config.json's members.
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

DummyFile generation_config(const DummySize& s) {
  return {"generation_config.json",
          qwen_generation_config(s.pieces, R"("temperature": 0.6, "top_k": 20, "top_p": 0.95)")};
}

Result<DummyCheckpoint> dummy(std::string_view size) {
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

extern const DummySizes kQwen35TextDummies;
const DummySizes kQwen35TextDummies = {kDummyNames, dummy};

}  // namespace saccade
