#include "model/dummies/tekken_dummy.h"

#include <array>
#include <string_view>

namespace saccade {
namespace {

constexpr std::array<std::string_view, 20> kSpecialTokens = {"<unk>",
                                                             "<s>",
                                                             "</s>",
                                                             "[INST]",
                                                             "[/INST]",
                                                             "[AVAILABLE_TOOLS]",
                                                             "[/AVAILABLE_TOOLS]",
                                                             "[TOOL_RESULTS]",
                                                             "[/TOOL_RESULTS]",
                                                             "[TOOL_CALLS]",
                                                             "[IMG]",
                                                             "<pad>",
                                                             "[IMG_BREAK]",
                                                             "[IMG_END]",
                                                             "[PREFIX]",
                                                             "[MIDDLE]",
                                                             "[SUFFIX]",
                                                             "[SYSTEM_PROMPT]",
                                                             "[/SYSTEM_PROMPT]",
                                                             "[TOOL_CONTENT]"};

constexpr std::string_view kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// What the published template gives for messages without tools that begin with a system message;
// it has one of its own for those that do not.
constexpr std::string_view kTemplate =
    R"({{- '<s>' -}}
{%- for message in messages -%}
{%- if message.role == 'system' -%}{{- '[SYSTEM_PROMPT]' -}}
{%- elif message.role == 'user' -%}{{- '[INST]' -}}{%- endif -%}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] -%}{{- '[IMG]' -}}
{%- elif part.type == 'text' -%}{{- part.text -}}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- if message.role == 'system' -%}{{- '[/SYSTEM_PROMPT]' -}}
{%- elif message.role == 'user' -%}{{- '[/INST]' -}}
{%- else -%}{{- '</s>' -}}{%- endif -%}
{%- endfor -%}
)";

}  // namespace

void describe_tekken(std::int64_t vocab, DummyCheckpoint& checkpoint) {
  checkpoint.chat_template = kTemplate;
  checkpoint.tokenizer_pieces = vocab;
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i)
    checkpoint.special_tokens.push_back({static_cast<TokenId>(i), std::string(kSpecialTokens[i])});
  checkpoint.tokenizer_pattern = kPattern;
  checkpoint.tokenizer_options = {.nfc = false, .begin = "<s>"};
  checkpoint.tokenizer_class = "PreTrainedTokenizerFast";
  checkpoint.end_token = "</s>";
  checkpoint.pad_token = "<pad>";
}

std::string tekken_generation_config() { return R"({"bos_token_id": 1, "eos_token_id": 2})"; }

}  // namespace saccade
