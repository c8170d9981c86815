#include "model/dummies/qwen_dummy.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace saccade {

const std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::array<std::string_view, kQwen3Tokens> kSpecialTokens = {"<|endoftext|>",
                                                                       "<|im_start|>",
                                                                       "<|im_end|>",
                                                                       "<|object_ref_start|>",
                                                                       "<|object_ref_end|>",
                                                                       "<|box_start|>",
                                                                       "<|box_end|>",
                                                                       "<|quad_start|>",
                                                                       "<|quad_end|>",
                                                                       "<|vision_start|>",
                                                                       "<|vision_end|>",
                                                                       "<|vision_pad|>",
                                                                       "<|image_pad|>",
                                                                       "<|video_pad|>",
                                                                       "<tool_call>",
                                                                       "</tool_call>",
                                                                       "<|fim_prefix|>",
                                                                       "<|fim_middle|>",
                                                                       "<|fim_suffix|>",
                                                                       "<|fim_pad|>",
                                                                       "<|repo_name|>",
                                                                       "<|file_sep|>",
                                                                       "<tool_response>",
                                                                       "</tool_response>",
                                                                       "<think>",
                                                                       "</think>"};

constexpr std::string_view kDefaultSystem =
    R"({%- if loop.first and message.role != 'system' -%}
{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' -}}
{%- endif -%}
)";
constexpr std::string_view kVisionMessages =
    R"({{- '<|im_start|>' + message.role + '\n' -}}
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

const std::string_view kQwen3Template =
    R"({%- set ns = namespace(last=messages|length - 1) -%}
{%- for message in messages -%}{%- if message.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.role == 'assistant' -%}
{%- set parts = message.content.split('</think>') -%}
{%- set thought = message.reasoning_content if message.reasoning_content else (parts[0].split('<think>')[-1] if parts|length > 1 else '') -%}
{%- set answer = message.content if message.reasoning_content or parts|length == 1 else parts[-1].lstrip('\n') -%}
{%- if loop.index0 > ns.last and (loop.last or thought) -%}
{{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + answer.lstrip('\n') -}}
{%- else -%}{{- answer -}}{%- endif -%}
{%- else -%}{{- message.content -}}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\n\n</think>\n\n' -}}{%- endif -%}
{%- endif -%}
)";

std::string qwen_vision_template(bool default_system) {
  return fmt::format("{{%- for message in messages -%}}\n{}{}",
                     default_system ? kDefaultSystem : "", kVisionMessages);
}

std::span<const std::string_view> qwen_special_tokens() { return kSpecialTokens; }

void describe_qwen_tokenizer(std::int64_t pieces, std::size_t special_tokens,
                             std::string_view chat_template, DummyCheckpoint& checkpoint) {
  CHECK(special_tokens <= kSpecialTokens.size(), "{} special tokens", special_tokens);
  checkpoint.chat_template = chat_template;
  checkpoint.tokenizer_pieces = pieces;
  for (std::size_t i = 0; i < special_tokens; ++i)
    checkpoint.special_tokens.push_back({static_cast<TokenId>(pieces) + static_cast<TokenId>(i),
                                         std::string(kSpecialTokens[i]), i < kQwenVisionTokens});
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "Qwen2Tokenizer";
  checkpoint.end_token = "<|im_end|>";
  checkpoint.pad_token = "<|endoftext|>";
}

std::string qwen_generation_config(std::int64_t pieces, std::string_view sampling) {
  return fmt::format(R"({{"bos_token_id": {0}, "pad_token_id": {0}, "do_sample": true, )"
                     R"("eos_token_id": [{1}, {0}], {2}}})",
                     pieces, pieces + 2, sampling);
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
