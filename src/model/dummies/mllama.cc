// Checkpoints of random weights of Llama 3.2 Vision.
#include <algorithm>
#include <array>
#include <string>

#include "model/dummies/dummy_sizes.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  std::int64_t every;  // layers of text between two that attend to images, and one
  std::int64_t vocab, pieces;
  std::int64_t width, inner, depth, global, vision_heads, tile;
  std::string_view inner_layers;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 5, 4, 2, 3, 1456, 1200, 64, 152, 3, 1, 4, 56, "0, 2"},
    DummySize{"11b", 4096, 14336, 40, 32, 8, 5, 128256, 128000, 1280, 5120, 32, 8, 16, 560,
              "3, 7, 15, 23, 30"},
    DummySize{"90b", 8192, 28672, 100, 64, 8, 5, 128256, 128000, 1280, 5120, 32, 8, 16, 560,
              "3, 7, 15, 23, 30"},
};
constexpr auto kDummyNames = names_of(kDummySizes);

constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kChatTemplate =
    R"({{- '<|begin_of_text|>' -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' -}}
{%- if message.content is string -%}{{- message.content -}}{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}{{- '<|image|>' -}}{%- elif part.type == 'text' -%}{{- part.text -}}{%- endif -%}
{%- endfor -%}{%- endif -%}
{{- '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%}
)";

// The fourth layer and every fifth after it, in the published sizes.
std::string cross_layers(const DummySize& s) {
  std::string list;
  for (std::int64_t layer = s.every - 2; layer < s.layers; layer += s.every)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", layer);
  return list;
}

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  const auto inner_layers = 1 + std::ranges::count(s.inner_layers, ',');
  return fmt::format(
      R"({{"architectures": ["MllamaForConditionalGeneration"], "model_type": "mllama", "image_token_index": {vocab},
 "tie_word_embeddings": false, "torch_dtype": "bfloat16",
 "text_config": {{"model_type": "mllama_text_model", "bos_token_id": {bos}, "eos_token_id": [{end}, {eom}, {eot}],
  "pad_token_id": {pad}, "cross_attention_layers": [{cross}], "dropout": 0, "hidden_act": "silu",
  "hidden_size": {hidden}, "intermediate_size": {intermediate}, "num_hidden_layers": {layers},
  "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false, "vocab_size": {vocab},
  "rope_scaling": {{"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
   "original_max_position_embeddings": 8192, "rope_type": "llama3"}}}},
 "vision_config": {{"model_type": "mllama_vision_model", "hidden_act": "gelu", "hidden_size": {width},
  "attention_heads": {vision_heads}, "intermediate_size": {inner}, "num_hidden_layers": {depth},
  "num_global_layers": {global}, "intermediate_layers_indices": [{inner_layers}], "vision_output_dim": {output},
  "image_size": {tile}, "patch_size": 14, "max_num_tiles": 4, "norm_eps": 1e-05, "num_channels": 3,
  "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]}}}}
)",
      arg("vocab", s.vocab), arg("bos", s.pieces), arg("end", s.pieces + 1),
      arg("eom", s.pieces + 8), arg("eot", s.pieces + 9), arg("pad", s.pieces + 4),
      arg("cross", cross_layers(s)), arg("hidden", s.hidden), arg("intermediate", s.intermediate),
      arg("layers", s.layers), arg("heads", s.heads), arg("kv_heads", s.kv_heads),
      arg("width", s.width), arg("vision_heads", s.vision_heads), arg("inner", s.inner),
      arg("depth", s.depth), arg("global", s.global), arg("inner_layers", s.inner_layers),
      arg("output", s.width * (1 + inner_layers)), arg("tile", s.tile));
}

std::string dummy_preprocessor(const DummySize& s) {
  return fmt::format(
      R"({{"do_convert_rgb": true, "do_normalize": true, "do_pad": true, "do_rescale": true, "do_resize": true,
 "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_processor_type": "MllamaImageProcessor",
 "image_std": [0.26862954, 0.26130258, 0.27577711], "max_image_tiles": 4, "resample": 2,
 "rescale_factor": 0.00392156862745098, "size": {{"height": {0}, "width": {0}}}}}
)",
      s.tile);
}

Result<DummyCheckpoint> dummy(std::string_view name) {
  const DummySize& size = size_named(kDummySizes, name);
  const auto first = static_cast<TokenId>(size.pieces);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(size)},
      {"generation_config.json",
       fmt::format(R"({{"bos_token_id": {}, "do_sample": true, "eos_token_id": [{}, {}, {}], )"
                   R"("pad_token_id": {}, "temperature": 0.6, "top_p": 0.9}})",
                   first, first + 1, first + 8, first + 9, first + 4)},
      {"preprocessor_config.json", dummy_preprocessor(size)}};
  checkpoint.chat_template = kChatTemplate;
  checkpoint.tokenizer_pieces = size.pieces;
  checkpoint.special_tokens = {{first, "<|begin_of_text|>"},
                               {first + 1, "<|end_of_text|>"},
                               {first + 4, "<|finetune_right_pad_id|>"},
                               {first + 6, "<|start_header_id|>"},
                               {first + 7, "<|end_header_id|>"},
                               {first + 8, "<|eom_id|>"},
                               {first + 9, "<|eot_id|>"},
                               {static_cast<TokenId>(size.vocab), "<|image|>"}};
  checkpoint.tokenizer_pattern = kPattern;
  checkpoint.tokenizer_options = {.nfc = false, .begin = "<|begin_of_text|>"};
  checkpoint.tokenizer_class = "PreTrainedTokenizerFast";
  checkpoint.end_token = "<|eot_id|>";
  checkpoint.pad_token = "<|finetune_right_pad_id|>";
  return checkpoint;
}

}  // namespace

extern const DummySizes kMllamaDummies;
const DummySizes kMllamaDummies = {kDummyNames, dummy};

}  // namespace saccade
