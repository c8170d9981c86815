// Checkpoints of random weights of Llama 3.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  bool tied;
  int rope_factor;
  std::int64_t vocab, pieces;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, 32, true, 32, 1280, 1200},
    DummySize{"1b", 2048, 8192, 16, 32, 8, 64, true, 32, 128256, 128000},
    DummySize{"3b", 3072, 8192, 28, 24, 8, 128, true, 32, 128256, 128000},
    DummySize{"8b", 4096, 14336, 32, 32, 8, 128, false, 8, 128256, 128000},
};
constexpr std::array<std::string_view, 4> kDummyNames = {"tiny", "1b", "3b", "8b"};

constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kChatTemplate =
    R"({{- '<|begin_of_text|>' -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%}
)";

std::string dummy_config(const DummySize& s) {
  return fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false, "mlp_bias": false,
 "bos_token_id": {0}, "eos_token_id": [{1}, {2}, {3}], "hidden_act": "silu", "hidden_size": {4},
 "intermediate_size": {5}, "num_hidden_layers": {6}, "num_attention_heads": {7}, "num_key_value_heads": {8},
 "head_dim": {9}, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
 "rope_scaling": {{"factor": {10}.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}},
 "tie_word_embeddings": {11}, "torch_dtype": "bfloat16", "vocab_size": {12}}}
)",
      s.pieces, s.pieces + 1, s.pieces + 8, s.pieces + 9, s.hidden, s.intermediate, s.layers,
      s.heads, s.kv_heads, s.head_dim, s.rope_factor, s.tied, s.vocab);
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  const auto first = static_cast<TokenId>(found->pieces);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(R"({{"bos_token_id": {}, "do_sample": true, "eos_token_id": [{}, {}, {}], )"
                   R"("temperature": 0.6, "top_p": 0.9}})",
                   first, first + 1, first + 8, first + 9)}};
  checkpoint.chat_template = kChatTemplate;
  checkpoint.tokenizer_pieces = found->pieces;
  checkpoint.special_tokens = {{first, "<|begin_of_text|>"},
                               {first + 1, "<|end_of_text|>"},
                               {first + 4, "<|finetune_right_pad_id|>"},
                               {first + 6, "<|start_header_id|>"},
                               {first + 7, "<|end_header_id|>"},
                               {first + 8, "<|eom_id|>"},
                               {first + 9, "<|eot_id|>"}};
  checkpoint.tokenizer_pattern = kPattern;
  checkpoint.tokenizer_options = {.nfc = false, .begin = "<|begin_of_text|>"};
  checkpoint.tokenizer_class = "PreTrainedTokenizerFast";
  checkpoint.end_token = "<|eot_id|>";
  checkpoint.pad_token = "<|finetune_right_pad_id|>";
  return checkpoint;
}

}  // namespace

extern const DummySizes kLlama3Dummies;
const DummySizes kLlama3Dummies = {kDummyNames, dummy};

}  // namespace saccade
