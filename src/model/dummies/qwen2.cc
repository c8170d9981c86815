// Checkpoints of random weights of Qwen2 and Qwen2.5.
#include <array>

#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  bool tied;
  std::int64_t vocab, pieces;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, true, 1280, 1200},
    DummySize{"0.5b", 896, 4864, 24, 14, 2, true, 151936, 151643},
    DummySize{"1.5b", 1536, 8960, 28, 12, 2, true, 151936, 151643},
    DummySize{"3b", 2048, 11008, 36, 16, 2, true, 151936, 151643},
    DummySize{"7b", 3584, 18944, 28, 28, 4, false, 152064, 151643},
};
constexpr auto kDummyNames = names_of(kDummySizes);

constexpr std::string_view kChatTemplate =
    R"({%- for message in messages -%}
{%- if loop.first and message.role != 'system' -%}
{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' -}}
{%- endif -%}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
)";

std::string dummy_config(const DummySize& s) {
  return fmt::format(
      R"({{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
 "bos_token_id": {}, "eos_token_id": {}, "hidden_act": "silu", "hidden_size": {}, "intermediate_size": {},
 "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "max_position_embeddings": 32768,
 "use_sliding_window": false, "sliding_window": 32768, "max_window_layers": {}, "rms_norm_eps": 1e-06,
 "rope_theta": 1000000.0, "tie_word_embeddings": {}, "torch_dtype": "bfloat16", "vocab_size": {}}}
)",
      s.pieces, s.pieces + 2, s.hidden, s.intermediate, s.layers, s.heads, s.kv_heads, s.layers,
      s.tied, s.vocab);
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const DummySize& s = size_named(kDummySizes, size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(s)},
      {"generation_config.json",
       qwen_generation_config(s.pieces, R"("temperature": 0.7, "top_p": 0.8, "top_k": 20)")}};
  describe_qwen_tokenizer(s.pieces, kQwenTextTokens, kChatTemplate, checkpoint);
  return checkpoint;
}

}  // namespace

extern const DummySizes kQwen2Dummies;
const DummySizes kQwen2Dummies = {kDummyNames, dummy};

}  // namespace saccade
