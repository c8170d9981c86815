// Checkpoints of random weights of MiniCPM-V 4.6.
#include <array>
#include <utility>

#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  std::int64_t vocab, pieces;
  std::int64_t delta_heads, delta_dim;
  std::int64_t depth, embed, inner, vision_heads, image, joined_after;
  std::int64_t scale, slices;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, 32, 1280, 1200, 2, 32, 4, 128, 252, 4, 8 * 14, 1, 112, 4},
    DummySize{"1.3b", 1024, 3584, 24, 8, 2, 256, 248094, 248044, 16, 128, 27, 1152, 4304, 16, 980,
              6, 448, 9},
};
constexpr auto kDummyNames = names_of(kDummySizes);

// After those that Qwen3 has.
constexpr std::array<std::string_view, 6> kSpecialTokens = {
    "<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>"};

// What the published template gives for messages without tools: parts a line each, and thoughts
// closed before an answer unless they are asked for.
constexpr std::string_view kTemplate =
    R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if not loop.first -%}{{- '\n' -}}{%- endif -%}
{%- if part.type in ['image', 'image_url'] or 'image' in part -%}{{- '<|image_pad|>' -}}
{%- elif part.type == 'video' or 'video' in part -%}{{- '<|video_pad|>' -}}
{%- elif 'text' in part -%}{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n<think>\n' -}}
{%- if enable_thinking is not defined or enable_thinking is false -%}{{- '\n</think>\n\n' -}}{%- endif -%}
{%- endif -%}
)";

std::string config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["MiniCPMV4_6ForConditionalGeneration"], "model_type": "minicpmv4_6",
 "drop_vision_last_layer": false, "dtype": "bfloat16", "eos_token_id": {bos}, "image_size": 1120,
 "image_token_id": {image}, "video_token_id": {video}, "insert_layer_id": {joined_after}, "merge_kernel_size": [2, 2],
 "merger_times": 1, "patch_size": 14, "tie_word_embeddings": true,
 "text_config": {{"attention_bias": false, "attn_output_gate": true, "dtype": "bfloat16", "full_attention_interval": 4,
  "head_dim": {head_dim}, "hidden_act": "silu", "hidden_size": {hidden}, "intermediate_size": {intermediate},
  "linear_conv_kernel_dim": 4, "linear_key_head_dim": {delta_dim}, "linear_num_key_heads": {delta_heads},
  "linear_num_value_heads": {delta_heads}, "linear_value_head_dim": {delta_dim}, "mamba_ssm_dtype": "float32",
  "max_position_embeddings": 262144, "model_type": "qwen3_5_text", "num_attention_heads": {heads},
  "num_hidden_layers": {layers}, "num_key_value_heads": {kv_heads}, "rms_norm_eps": 1e-06,
  "rope_parameters": {{"partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"}},
  "tie_word_embeddings": true, "vocab_size": {vocab}}},
 "vision_config": {{"hidden_act": "gelu_pytorch_tanh", "hidden_size": {embed}, "image_size": {size},
  "intermediate_size": {inner}, "layer_norm_eps": 1e-06, "model_type": "minicpmv4_6_vision",
  "num_attention_heads": {vision_heads}, "num_channels": 3, "num_hidden_layers": {depth}, "patch_size": 14,
  "window_kernel_size": [2, 2]}}}}
)",
      arg("bos", s.pieces), arg("image", s.pieces + 12), arg("video", s.pieces + 13),
      arg("joined_after", s.joined_after), arg("head_dim", s.head_dim), arg("hidden", s.hidden),
      arg("intermediate", s.intermediate), arg("delta_dim", s.delta_dim),
      arg("delta_heads", s.delta_heads), arg("heads", s.heads), arg("layers", s.layers),
      arg("kv_heads", s.kv_heads), arg("vocab", s.vocab), arg("embed", s.embed),
      arg("size", s.image), arg("inner", s.inner), arg("vision_heads", s.vision_heads),
      arg("depth", s.depth));
}

std::string preprocessor_config(const DummySize& s) {
  return fmt::format(
      R"({{"downsample_mode": "16x", "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
      R"("max_slice_nums": {}, "patch_size": 14, "scale_resolution": {}, "slice_mode": true, "use_image_id": true, )"
      R"("image_processor_type": "MiniCPMV4_6ImageProcessor", "processor_class": "MiniCPMV4_6Processor"}})",
      s.slices, s.scale);
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const DummySize& s = size_named(kDummySizes, size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", config(s)},
      {"generation_config.json",
       qwen_generation_config(s.pieces, R"("temperature": 0.7, "top_k": 0, "top_p": 0.8)")},
      {"preprocessor_config.json", preprocessor_config(s)}};
  describe_qwen_tokenizer(s.pieces, kQwen3Tokens, kTemplate, checkpoint);
  for (const std::string_view token : kSpecialTokens)
    checkpoint.special_tokens.push_back(
        {checkpoint.special_tokens.back().id + 1, std::string(token), true});
  return checkpoint;
}

}  // namespace

extern const DummySizes kMiniCpmvDummies;
const DummySizes kMiniCpmvDummies = {kDummyNames, dummy};

}  // namespace saccade
