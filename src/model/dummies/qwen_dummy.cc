#include "model/dummies/qwen_dummy.h"

#include <fmt/format.h>

#include <array>

namespace saccade {

const std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// In the order of their ids, from the first after the pieces on.
constexpr std::array kSpecialTokens = {
    "<|endoftext|>",      "<|im_start|>",     "<|im_end|>",     "<|object_ref_start|>",
    "<|object_ref_end|>", "<|box_start|>",    "<|box_end|>",    "<|quad_start|>",
    "<|quad_end|>",       "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>",      "<|video_pad|>"};

constexpr std::string_view kChatTemplate =
    R"({%- for message in messages -%}
{%- if loop.first and message.role != 'system' -%}
{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' -}}
{%- endif -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] or 'image' in part -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- elif part.type == 'video' or 'video' in part -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
{%- elif 'text' in part -%}{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
)";

}  // namespace

void describe_qwen_vision_tokenizer(std::int64_t pieces, DummyCheckpoint& checkpoint) {
  checkpoint.chat_template = kChatTemplate;
  checkpoint.tokenizer_pieces = pieces;
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i)
    checkpoint.special_tokens.push_back(
        {static_cast<TokenId>(pieces) + static_cast<TokenId>(i), kSpecialTokens[i]});
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "Qwen2Tokenizer";
  checkpoint.end_token = "<|im_end|>";
  checkpoint.pad_token = "<|endoftext|>";
}

std::string qwen_preprocessor_config(std::string_view processor_class) {
  return fmt::format(
      R"({{"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, )"
      R"("merge_size": 2, "image_mean": [0.48145466, 0.4578275, 0.40821073], )"
      R"("image_std": [0.26862954, 0.26130258, 0.27577711], )"
      R"("image_processor_type": "Qwen2VLImageProcessor", "processor_class": "{}"}})",
      processor_class);
}

}  // namespace saccade
