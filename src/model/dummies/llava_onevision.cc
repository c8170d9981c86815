// Checkpoints of random weights of LLaVA-OneVision.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"
#include "model/images/anyres.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  bool tied;
  std::int64_t vocab, pieces;
  std::int64_t depth, width, inner, vision_heads, image;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, true, 1280, 1200, 4, 64, 152, 4, 56},
    DummySize{"0.5b", 896, 4864, 24, 14, 2, true, 152000, 151643, 26, 1152, 4304, 16, 384},
    DummySize{"7b", 3584, 18944, 28, 28, 4, false, 152128, 151643, 26, 1152, 4304, 16, 384},
};
constexpr std::array<std::string_view, 3> kDummyNames = {"tiny", "0.5b", "7b"};
constexpr std::array kSpecialTokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>",
                                       "<video>"};

constexpr std::string_view kChatTemplate =
    R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}{%- if part.type == 'image' -%}{{- '<image>\n' -}}{%- endif -%}{%- endfor -%}
{%- for part in message.content -%}{%- if part.type == 'text' -%}{{- part.text -}}{%- endif -%}{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
)";

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  std::string pinpoints;
  for (const ImageExtent& each : every_pinpoint(static_cast<int>(s.image)))
    pinpoints += fmt::format("{}[{}, {}]", pinpoints.empty() ? "" : ", ", each.height, each.width);
  return fmt::format(
      R"({{"architectures": ["LlavaOnevisionForConditionalGeneration"], "model_type": "llava_onevision",
 "image_grid_pinpoints": [{pinpoints}],
 "image_token_index": {image_token}, "video_token_index": {video_token}, "projector_hidden_act": "gelu",
 "text_config": {{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "bos_token_id": {bos},
  "eos_token_id": {eos}, "hidden_size": {hidden}, "intermediate_size": {intermediate}, "num_hidden_layers": {layers},
  "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "rope_theta": 1000000.0,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "tie_word_embeddings": {tied}, "torch_dtype": "bfloat16",
  "vocab_size": {vocab}}},
 "tie_word_embeddings": {tied}, "torch_dtype": "bfloat16", "use_image_newline_parameter": true,
 "vision_aspect_ratio": "anyres_max_9", "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
 "vision_config": {{"hidden_size": {width}, "image_size": {image}, "intermediate_size": {inner},
  "model_type": "siglip_vision_model", "num_attention_heads": {vision_heads}, "num_hidden_layers": {depth},
  "patch_size": 14, "vision_use_head": false}}}}
)",
      arg("pinpoints", pinpoints), arg("image_token", s.pieces + 3),
      arg("video_token", s.pieces + 4), arg("bos", s.pieces), arg("eos", s.pieces + 2),
      arg("hidden", s.hidden), arg("intermediate", s.intermediate), arg("layers", s.layers),
      arg("heads", s.heads), arg("kv_heads", s.kv_heads), arg("tied", s.tied),
      arg("vocab", s.vocab), arg("width", s.width), arg("image", s.image), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("depth", s.depth));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  const std::int64_t side = found->image / 14;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json", fmt::format(R"({{"bos_token_id": {}, "eos_token_id": {}}})",
                                             found->pieces, found->pieces + 2)},
      {"preprocessor_config.json",
       fmt::format(
           R"({{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 3, "size": {{"height": {0}, "width": {0}}}, )"
           R"("image_processor_type": "LlavaOnevisionImageProcessor", "processor_class": "LlavaOnevisionProcessor"}})",
           found->image)},
      {"processor_config.json",
       fmt::format(
           R"({{"image_token": "<image>", "num_image_tokens": {}, "processor_class": "LlavaOnevisionProcessor", )"
           R"("video_token": "<video>", "vision_feature_select_strategy": "full"}})",
           side * side)}};
  checkpoint.chat_template = kChatTemplate;
  checkpoint.tokenizer_pieces = found->pieces;
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i)
    checkpoint.special_tokens.push_back(
        {static_cast<TokenId>(found->pieces) + static_cast<TokenId>(i), kSpecialTokens[i]});
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "Qwen2Tokenizer";
  checkpoint.end_token = "<|im_end|>";
  checkpoint.pad_token = "<|endoftext|>";
  return checkpoint;
}

}  // namespace

extern const DummySizes kLlavaOnevisionDummies;
const DummySizes kLlavaOnevisionDummies = {kDummyNames, dummy};

}  // namespace saccade
