// Checkpoints of random weights of Qwen3.
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

std::string dummy_config(const DummySize& s) {
  return fmt::format(
      R"({{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": false,
 "bos_token_id": {}, "eos_token_id": {}, "head_dim": {}, "hidden_act": "silu", "hidden_size": {}, "intermediate_size": {},
 "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "max_position_embeddings": 40960,
 "use_sliding_window": false, "sliding_window": null, "max_window_layers": {}, "rms_norm_eps": 1e-06,
 "rope_scaling": null, "rope_theta": 1000000, "tie_word_embeddings": {}, "torch_dtype": "bfloat16", "vocab_size": {}}}
)",
      s.pieces, s.pieces + 2, s.head_dim, s.hidden, s.intermediate, s.layers, s.heads, s.kv_heads,
      s.layers, s.tied, s.vocab);
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const DummySize& s = size_named(kDummySizes, size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(s)},
      {"generation_config.json",
       qwen_generation_config(s.pieces, R"("temperature": 0.6, "top_k": 20, "top_p": 0.95)")}};
  describe_qwen_tokenizer(s.pieces, kQwen3Tokens, kQwen3Template, checkpoint);
  return checkpoint;
}

}  // namespace

extern const DummySizes kQwen3Dummies;
const DummySizes kQwen3Dummies = {kDummyNames, dummy};

}  // namespace saccade
