// Checkpoints of random weights of Mistral text models.
#include <array>
#include <string>

#include "model/dummies/tekken_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  std::int64_t vocab, max_position;
  double theta;
  std::int64_t window;  // 0: none
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 160, 256, 4, 4, 2, 32, 1280, 2048, 1e6, 64},
    DummySize{"7b", 4096, 14336, 32, 32, 8, 128, 32768, 32768, 1e6, 0},
    DummySize{"8b", 4096, 12288, 36, 32, 8, 128, 131072, 32768, 1e8, 32768},
    DummySize{"12b", 5120, 14336, 40, 32, 8, 128, 131072, 131072, 1e6, 0},
    DummySize{"24b", 5120, 32768, 40, 32, 8, 128, 131072, 32768, 1e8, 0},
};
constexpr auto kDummyNames = names_of(kDummySizes);

std::string dummy_config(const DummySize& s) {
  return fmt::format(
      R"({{"architectures": ["MistralForCausalLM"], "model_type": "mistral", "bos_token_id": 1, "eos_token_id": 2,
 "hidden_act": "silu", "hidden_size": {}, "intermediate_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
 "num_key_value_heads": {}, "head_dim": {}, "max_position_embeddings": {}, "rms_norm_eps": 1e-05, "rope_theta": {:.1f},
 "sliding_window": {}, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": {}}}
)",
      s.hidden, s.intermediate, s.layers, s.heads, s.kv_heads, s.head_dim, s.max_position, s.theta,
      s.window > 0 ? std::to_string(s.window) : "null", s.vocab);
}

Result<DummyCheckpoint> dummy(std::string_view name) {
  const DummySize& size = size_named(kDummySizes, name);
  DummyCheckpoint checkpoint;
  checkpoint.files = {{"config.json", dummy_config(size)},
                      {"generation_config.json", tekken_generation_config()}};
  describe_tekken(size.vocab, checkpoint);
  return checkpoint;
}

}  // namespace

extern const DummySizes kMistralDummies;
const DummySizes kMistralDummies = {kDummyNames, dummy};

}  // namespace saccade
