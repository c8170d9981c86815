// Checkpoints of random weights of GLM-4.1V.
#include <array>
#include <string>

#include "model/dummies/dummy_sizes.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  std::int64_t vocab, pieces;
  std::array<int, 3> sections;
  std::int64_t depth, embed, vision_heads, inner, side;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, 1280, 1200, {2, 3, 3}, 4, 128, 4, 252, 112},
    DummySize{"9b", 4096, 13696, 40, 32, 2, 151552, 151329, {8, 12, 12}, 24, 1536, 12, 13696, 336},
};
constexpr auto kDummyNames = names_of(kDummySizes);

constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// They follow the pieces. An answer's text shows the last four.
constexpr std::size_t kShown = 16;
constexpr std::array<std::string_view, 20> kSpecialTokens = {"<|endoftext|>",
                                                             "[MASK]",
                                                             "[gMASK]",
                                                             "[sMASK]",
                                                             "<sop>",
                                                             "<eop>",
                                                             "<|system|>",
                                                             "<|user|>",
                                                             "<|assistant|>",
                                                             "<|observation|>",
                                                             "<|begin_of_image|>",
                                                             "<|end_of_image|>",
                                                             "<|begin_of_video|>",
                                                             "<|end_of_video|>",
                                                             "<|image|>",
                                                             "<|video|>",
                                                             "<think>",
                                                             "</think>",
                                                             "<answer>",
                                                             "</answer>"};

// What the published template gives.
constexpr std::string_view kChatTemplate =
    R"({{- '[gMASK]<sop>' -}}
{%- for message in messages -%}
{{- '<|' + message.role + '|>\n' -}}
{%- if message.content is string -%}{{- message.content -}}{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'video' -%}{{- '<|begin_of_video|><|video|><|end_of_video|>' -}}
{%- elif part.type == 'image' -%}{{- '<|begin_of_image|><|image|><|end_of_image|>' -}}
{%- elif part.type == 'text' -%}{{- part.text -}}{%- endif -%}
{%- endfor -%}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}
)";

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["Glm4vForConditionalGeneration"], "model_type": "glm4v",
 "image_start_token_id": {image_start}, "image_end_token_id": {image_end}, "video_start_token_id": {video_start},
 "video_end_token_id": {video_end}, "image_token_id": {image}, "video_token_id": {video}, "tie_word_embeddings": false,
 "text_config": {{"model_type": "glm4v_text", "attention_bias": true, "attention_dropout": 0.0, "dtype": "bfloat16",
  "eos_token_id": [{end}, {user}, {observation}, {answered}], "pad_token_id": {end}, "hidden_act": "silu",
  "hidden_size": {hidden}, "intermediate_size": {intermediate}, "max_position_embeddings": 65536,
  "num_attention_heads": {heads}, "num_hidden_layers": {layers}, "num_key_value_heads": {kv_heads},
  "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
  "rope_scaling": {{"type": "default", "mrope_section": [{t}, {h}, {w}]}}, "vocab_size": {vocab}}},
 "vision_config": {{"model_type": "glm4v_vision", "attention_bias": false, "depth": {depth}, "hidden_act": "silu",
  "hidden_size": {embed}, "image_size": {side}, "in_channels": 3, "intermediate_size": {inner}, "num_heads": {vision_heads},
  "out_hidden_size": {hidden}, "patch_size": 14, "rms_norm_eps": 1e-05, "spatial_merge_size": 2,
  "temporal_patch_size": 2}}}}
)",
      arg("image_start", s.pieces + 10), arg("image_end", s.pieces + 11),
      arg("video_start", s.pieces + 12), arg("video_end", s.pieces + 13),
      arg("image", s.pieces + 14), arg("video", s.pieces + 15), arg("end", s.pieces),
      arg("user", s.pieces + 7), arg("observation", s.pieces + 9), arg("answered", s.pieces + 19),
      arg("hidden", s.hidden), arg("intermediate", s.intermediate), arg("heads", s.heads),
      arg("layers", s.layers), arg("kv_heads", s.kv_heads), arg("t", s.sections[0]),
      arg("h", s.sections[1]), arg("w", s.sections[2]), arg("vocab", s.vocab),
      arg("depth", s.depth), arg("embed", s.embed), arg("side", s.side), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads));
}

std::string preprocessor(std::string_view kind, std::string_view type, std::int64_t most) {
  return fmt::format(
      R"({{"size": {{"shortest_edge": 12544, "longest_edge": {}}}, "do_rescale": true, "patch_size": 14,
 "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.48145466, 0.4578275, 0.40821073],
 "image_std": [0.26862954, 0.26130258, 0.27577711], "{}": "{}", "processor_class": "Glm4vProcessor"}}
)",
      most, kind, type);
}

Result<DummyCheckpoint> dummy(std::string_view name) {
  const DummySize& size = size_named(kDummySizes, name);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(size)},
      {"generation_config.json",
       fmt::format(
           R"({{"do_sample": true, "eos_token_id": [{0}, {1}, {2}, {3}], "pad_token_id": {0}, )"
           R"("top_p": 0.6, "temperature": 0.8, "top_k": 2}})",
           size.pieces, size.pieces + 7, size.pieces + 9, size.pieces + 19)},
      {"preprocessor_config.json",
       preprocessor("image_processor_type", "Glm4vImageProcessor", 9633792)},
      {"video_preprocessor_config.json",
       preprocessor("video_processor_type", "Glm4vVideoProcessor", 47040000)}};
  checkpoint.chat_template = kChatTemplate;
  checkpoint.tokenizer_pieces = size.pieces;
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i)
    checkpoint.special_tokens.push_back(
        {static_cast<TokenId>(size.pieces) + static_cast<TokenId>(i),
         std::string(kSpecialTokens[i]), i < kShown});
  checkpoint.tokenizer_pattern = kPattern;
  checkpoint.tokenizer_options = {.nfc = false, .begin = ""};
  checkpoint.tokenizer_class = "PreTrainedTokenizerFast";
  checkpoint.end_token = "<|user|>";
  checkpoint.pad_token = "<|endoftext|>";
  return checkpoint;
}

}  // namespace

extern const DummySizes kGlm4vDummies;
const DummySizes kGlm4vDummies = {kDummyNames, dummy};

}  // namespace saccade
