// Llama 3, 3.1 and 3.2 text models (1B to 70B). Reference: transformers' models/llama; report
// arXiv:2407.21783.
//
// Odd things: from 3.1 on, low rope frequencies are divided by a factor and those between two
// wavelengths blended ("llama3" in rope_scaling); three tokens end an answer; 1B and 3B tie the
// head to the embedding.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "model/text_model.h"

namespace saccade {
namespace {

constexpr DecoderDefaults kDefaults = {.norm_epsilon = 1e-6,
                                       .rope_theta = 10000,
                                       .max_position = 2048,
                                       .sliding_window = 0,
                                       .max_window_layers = 0,
                                       .tied_head = false};

Result<std::unique_ptr<LoadableModel>> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kDefaults));
  TRY_DO(read_biases(checkpoint.config, decoder.settings));
  return make_text_model("llama-3", checkpoint, std::move(decoder), {});
}

// --- checkpoints of random weights ---

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

constexpr std::array<std::string_view, 1> kArchitectures = {"LlamaForCausalLM"};
constexpr std::array<std::string_view, 1> kModelTypes = {"llama"};

}  // namespace

extern const Family kLlama3;
const Family kLlama3 = {.name = "llama-3",
                        .architectures = kArchitectures,
                        .model_types = kModelTypes,
                        .aliases = {},
                        .sizes = kDummyNames,
                        .create = create,
                        .dummy = dummy};

}  // namespace saccade
