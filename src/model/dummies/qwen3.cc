// Checkpoints of random weights of Qwen3, dense and with experts.
#include <array>

#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  bool tied;
  std::int64_t vocab, pieces;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, 40, true, 1280, 1200},
    DummySize{"0.6b", 1024, 3072, 28, 16, 8, 128, true, 151936, 151643},
    DummySize{"1.7b", 2048, 6144, 28, 16, 8, 128, true, 151936, 151643},
    DummySize{"4b", 2560, 9728, 36, 32, 8, 128, true, 151936, 151643},
    DummySize{"8b", 4096, 12288, 36, 32, 8, 128, false, 151936, 151643},
    DummySize{"14b", 5120, 17408, 40, 40, 8, 128, false, 151936, 151643},
    DummySize{"32b", 5120, 25600, 64, 64, 8, 128, false, 151936, 151643},
};
constexpr auto kDummyNames = names_of(kDummySizes);

struct MoeSize {
  std::string_view name;
  DummySize dense;  // but for its MLP
  std::int64_t experts, per_token, expert_intermediate;
};
constexpr std::array kMoeSizes = {
    MoeSize{"tiny", {"tiny", 128, 256, 4, 4, 2, 40, false, 1280, 1200}, 8, 2, 48},
    MoeSize{"30b-a3b", {"", 2048, 6144, 48, 32, 4, 128, false, 151936, 151643}, 128, 8, 768},
    MoeSize{"235b-a22b", {"", 4096, 12288, 94, 64, 4, 128, false, 151936, 151643}, 128, 8, 1536},
};
constexpr auto kMoeNames = names_of(kMoeSizes);

// `kind` is the class and its experts.
std::string dummy_config(const DummySize& s, std::string_view kind) {
  return fmt::format(
      R"({{{}, "attention_bias": false,
 "bos_token_id": {}, "eos_token_id": {}, "head_dim": {}, "hidden_act": "silu", "hidden_size": {}, "intermediate_size": {},
 "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "max_position_embeddings": 40960,
 "use_sliding_window": false, "sliding_window": null, "max_window_layers": {}, "rms_norm_eps": 1e-06,
 "rope_scaling": null, "rope_theta": 1000000, "tie_word_embeddings": {}, "torch_dtype": "bfloat16", "vocab_size": {}}}
)",
      kind, s.pieces, s.pieces + 2, s.head_dim, s.hidden, s.intermediate, s.layers, s.heads,
      s.kv_heads, s.layers, s.tied, s.vocab);
}

DummyCheckpoint checkpoint_of(const DummySize& s, std::string_view kind) {
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(s, kind)},
      {"generation_config.json",
       qwen_generation_config(s.pieces, R"("temperature": 0.6, "top_k": 20, "top_p": 0.95)")}};
  describe_qwen_tokenizer(s.pieces, kQwen3Tokens, kQwen3Template, checkpoint);
  return checkpoint;
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  return checkpoint_of(size_named(kDummySizes, size),
                       R"("architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3")");
}

Result<DummyCheckpoint> dummy_moe(std::string_view size) {
  const MoeSize& s = size_named(kMoeSizes, size);
  return checkpoint_of(
      s.dense,
      fmt::format(
          R"("architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "decoder_sparse_step": 1,
 "mlp_only_layers": [], "moe_intermediate_size": {}, "norm_topk_prob": true, "num_experts": {}, "num_experts_per_tok": {})",
          s.expert_intermediate, s.experts, s.per_token));
}

}  // namespace

extern const DummySizes kQwen3Dummies;
const DummySizes kQwen3Dummies = {kDummyNames, dummy};
extern const DummySizes kQwen3MoeDummies;
const DummySizes kQwen3MoeDummies = {kMoeNames, dummy_moe};

}  // namespace saccade
