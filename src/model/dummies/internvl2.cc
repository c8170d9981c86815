// Checkpoints of random weights of InternVL2, 3 and 3.5.
#include <array>

#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

enum class Text { kInternLm2, kQwen2, kPhi3, kQwen25, kQwen3 };

struct Tower {
  std::int64_t depth, width, inner, heads, image;
  bool big;  // RMSNorm, normed queries and keys
};
constexpr Tower kTower300M = {24, 1024, 4096, 16, 448, false};
constexpr Tower kTower6B = {45, 3200, 12800, 25, 448, true};
constexpr Tower kTinyTower = {4, 64, 152, 4, 56, false};

struct DummySize {
  std::string_view name;
  Text text;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  std::int64_t vocab, pieces;
  double ntk_factor;
  Tower tower;
  std::int64_t head_dim = 0;  // 0: hidden / heads
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", Text::kInternLm2, 128, 256, 4, 4, 2, 1280, 1200, 2, kTinyTower},
    DummySize{"1b", Text::kQwen2, 896, 4864, 24, 14, 2, 151655, 151643, 0, kTower300M},
    DummySize{"2b", Text::kInternLm2, 2048, 8192, 24, 16, 8, 92553, 92538, 2, kTower300M},
    DummySize{"4b", Text::kPhi3, 3072, 8192, 32, 32, 32, 32020, 32000, 0, kTower300M},
    DummySize{"8b", Text::kInternLm2, 4096, 14336, 32, 32, 8, 92553, 92538, 2, kTower300M},
    DummySize{"26b", Text::kInternLm2, 6144, 16384, 48, 48, 8, 92553, 92538, 3, kTower6B},
    DummySize{"3-tiny", Text::kQwen25, 128, 256, 4, 4, 2, 1280, 1200, 2, kTinyTower},
    DummySize{"3-1b", Text::kQwen25, 896, 4864, 24, 14, 2, 151674, 151643, 2, kTower300M},
    DummySize{"3-2b", Text::kQwen25, 1536, 8960, 28, 12, 2, 151674, 151643, 2, kTower300M},
    DummySize{"3-8b", Text::kQwen25, 3584, 18944, 28, 28, 4, 151674, 151643, 2, kTower300M},
    DummySize{"3-14b", Text::kQwen25, 5120, 13824, 48, 40, 8, 151674, 151643, 2, kTower300M},
    DummySize{"3-38b", Text::kQwen25, 5120, 27648, 64, 40, 8, 151674, 151643, 2, kTower6B},
    DummySize{"3-78b", Text::kQwen25, 8192, 29568, 80, 64, 8, 151674, 151643, 2, kTower6B},
    DummySize{"3.5-tiny", Text::kQwen3, 128, 256, 4, 4, 2, 1280, 1200, 0, kTinyTower, 40},
    DummySize{"3.5-1b", Text::kQwen3, 1024, 3072, 28, 16, 8, 151936, 151643, 0, kTower300M, 128},
    DummySize{"3.5-2b", Text::kQwen3, 2048, 6144, 28, 16, 8, 151936, 151643, 0, kTower300M, 128},
    DummySize{"3.5-4b", Text::kQwen3, 2560, 9728, 36, 32, 8, 151936, 151643, 0, kTower300M, 128},
    DummySize{"3.5-8b", Text::kQwen3, 4096, 12288, 36, 32, 8, 151936, 151643, 0, kTower300M, 128},
    DummySize{"3.5-14b", Text::kQwen3, 5120, 17408, 40, 40, 8, 151936, 151643, 0, kTower300M, 128},
    DummySize{"3.5-38b", Text::kQwen3, 5120, 25600, 64, 64, 8, 151936, 151643, 0, kTower6B, 128},
};
// A size of InternVL3 or 3.5 with this behind it is the same in transformers' form.
constexpr std::string_view kCurrent = "-hf";
constexpr std::array<std::string_view, 34> kDummyNames = {
    "tiny",      "1b",        "2b",        "4b",        "8b",         "26b",       "3-tiny",
    "3-1b",      "3-2b",      "3-8b",      "3-14b",     "3-38b",      "3-78b",     "3.5-tiny",
    "3.5-1b",    "3.5-2b",    "3.5-4b",    "3.5-8b",    "3.5-14b",    "3.5-38b",   "3-tiny-hf",
    "3-1b-hf",   "3-2b-hf",   "3-8b-hf",   "3-14b-hf",  "3-38b-hf",   "3-78b-hf",  "3.5-tiny-hf",
    "3.5-1b-hf", "3.5-2b-hf", "3.5-4b-hf", "3.5-8b-hf", "3.5-14b-hf", "3.5-38b-hf"};

// Special tokens from the first after the pieces on; those of images follow.
struct DummyTokens {
  std::span<const std::string_view> names;
  bool llama_like;  // <unk>, <s> and </s> come first of all
  std::int64_t end;
};
constexpr std::array<std::string_view, 6> kInternLm2Tokens = {"<|plugin|>",     "<|interpreter|>",
                                                              "<|action_end|>", "<|action_start|>",
                                                              "<|im_end|>",     "<|im_start|>"};
constexpr std::array<std::string_view, 11> kPhi3Tokens = {
    "<|endoftext|>",    "<|assistant|>",    "<|placeholder1|>", "<|placeholder2|>",
    "<|placeholder3|>", "<|placeholder4|>", "<|system|>",       "<|end|>",
    "<|placeholder5|>", "<|placeholder6|>", "<|user|>"};
constexpr std::array<std::string_view, 10> kImageTokens = {
    "<img>", "</img>", "<IMG_CONTEXT>", "<quad>", "</quad>",
    "<ref>", "</ref>", "<box>",         "</box>", "<video>"};  // the last in transformers' form
constexpr std::size_t kContextToken = 2;

DummyTokens tokens_of(Text text) {
  switch (text) {
    case Text::kInternLm2:
      return {kInternLm2Tokens, true, 4};
    case Text::kQwen2:
      return {qwen_special_tokens().first(kQwenTextTokens), false, 2};
    case Text::kQwen25:
      return {qwen_special_tokens().first(kQwen25Tokens), false, 2};
    case Text::kQwen3:
      return {qwen_special_tokens().first(kQwen3Tokens), false, 2};
    case Text::kPhi3:
      break;
  }
  return {kPhi3Tokens, true, 7};
}

// LongRoPE needs a factor a pair.
std::string factors(std::int64_t pairs, double step) {
  std::string list;
  for (std::int64_t i = 0; i < pairs; ++i)
    list += fmt::format("{}{:.2f}", i > 0 ? ", " : "", 1 + step * static_cast<double>(i));
  return list;
}

std::string dummy_text(const DummySize& s) {
  const std::int64_t pairs = s.hidden / s.heads / 2;
  const std::string shape = fmt::format(
      R"("eos_token_id": {}, "hidden_act": "silu", "hidden_size": {}, "intermediate_size": {}, "num_hidden_layers": {},
  "num_attention_heads": {}, "num_key_value_heads": {}, "torch_dtype": "bfloat16", "vocab_size": {}, )",
      s.pieces + tokens_of(s.text).end, s.hidden, s.intermediate, s.layers, s.heads, s.kv_heads,
      s.vocab);
  switch (s.text) {
    case Text::kInternLm2:
      return shape +
             fmt::format(
                 R"("architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", "bias": false,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-05, "rope_scaling": {{"factor": {:.1f}, "type": "dynamic"}},
  "rope_theta": 1000000, "tie_word_embeddings": false)",
                 s.ntk_factor);
    case Text::kQwen2:
      return shape +
             R"("architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": true, "use_sliding_window": false)";
    case Text::kQwen25:
      return shape +
             fmt::format(
                 R"("architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "max_position_embeddings": 32768,
  "max_window_layers": 70, "rms_norm_eps": 1e-06, "rope_scaling": {{"factor": {:.1f}, "rope_type": "dynamic", "type": "dynamic"}},
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false)",
                 s.ntk_factor);
    case Text::kQwen3:
      return shape +
             fmt::format(
                 R"("architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": false, "head_dim": {},
  "max_position_embeddings": 40960, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
  "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false)",
                 s.head_dim);
    case Text::kPhi3:
      break;
  }
  return shape +
         fmt::format(
             R"("architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "max_position_embeddings": 131072,
  "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 262144,
  "rope_scaling": {{"type": "su", "short_factor": [{}], "long_factor": [{}]}}, "tie_word_embeddings": false)",
             factors(pairs, 0.02), factors(pairs, 1.25));
}

std::string_view conversation_of(Text text) {
  switch (text) {
    case Text::kInternLm2:
      return "internlm2-chat";
    case Text::kQwen2:
      return "Hermes-2";
    case Text::kPhi3:
      return "phi3-chat";
    default:
      return "internvl2_5";
  }
}

std::string original_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "downsample_ratio": 0.5,
 "dynamic_image_size": true, "force_image_size": {image}, "max_dynamic_patch": 12, "min_dynamic_patch": 1,
 "ps_version": "v2", "select_layer": -1, "template": "{format}", "torch_dtype": "bfloat16", "use_thumbnail": true,
 "llm_config": {{{text}}},
 "vision_config": {{"architectures": ["InternVisionModel"], "model_type": "intern_vit_6b", "hidden_act": "gelu",
  "hidden_size": {width}, "image_size": {image}, "intermediate_size": {inner}, "layer_norm_eps": 1e-06,
  "norm_type": "{norm}", "num_attention_heads": {heads}, "num_hidden_layers": {depth}, "patch_size": 14,
  "qk_normalization": {big}, "qkv_bias": {bias}}}}}
)",
      arg("image", s.tower.image), arg("format", conversation_of(s.text)),
      arg("text", dummy_text(s)), arg("width", s.tower.width), arg("inner", s.tower.inner),
      arg("norm", s.tower.big ? "rms_norm" : "layer_norm"), arg("heads", s.tower.heads),
      arg("depth", s.tower.depth), arg("big", s.tower.big), arg("bias", !s.tower.big));
}

std::string current_config(const DummySize& s, TokenId context) {
  using fmt::arg;
  const std::int64_t side = s.tower.image / 28;
  return fmt::format(
      R"({{"architectures": ["InternVLForConditionalGeneration"], "model_type": "internvl", "downsample_ratio": 0.5,
 "image_seq_length": {tokens}, "image_token_id": {context}, "projector_hidden_act": "gelu", "tie_word_embeddings": false,
 "torch_dtype": "bfloat16", "vision_feature_layer": -1, "vision_feature_select_strategy": "default",
 "text_config": {{{text}}},
 "vision_config": {{"architectures": ["InternVLVisionModel"], "model_type": "internvl_vision", "attention_bias": {bias},
  "hidden_act": "gelu", "hidden_size": {width}, "image_size": [{image}, {image}], "intermediate_size": {inner},
  "layer_norm_eps": 1e-06, "norm_type": "{norm}", "num_attention_heads": {heads}, "num_channels": 3,
  "num_hidden_layers": {depth}, "patch_size": [14, 14], "use_absolute_position_embeddings": true,
  "use_mask_token": false, "use_mean_pooling": true, "use_qk_norm": {big}}}}}
)",
      arg("tokens", side * side), arg("context", context), arg("text", dummy_text(s)),
      arg("bias", !s.tower.big), arg("width", s.tower.width), arg("image", s.tower.image),
      arg("inner", s.tower.inner), arg("norm", s.tower.big ? "rms_norm" : "layer_norm"),
      arg("heads", s.tower.heads), arg("depth", s.tower.depth), arg("big", s.tower.big));
}

std::string preprocessor_config(std::int64_t image, bool current) {
  constexpr std::string_view kNormalize =
      R"("do_normalize": true, "do_resize": true, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3)";
  if (current)
    return fmt::format(
        R"({{{1}, "crop_to_patches": false, "do_convert_rgb": true, "do_rescale": true, )"
        R"("image_processor_type": "GotOcr2ImageProcessorFast", "max_patches": 12, "min_patches": 1, )"
        R"("processor_class": "InternVLProcessor", "size": {{"height": {0}, "width": {0}}}}})",
        image, kNormalize);
  return fmt::format(R"({{{1}, "crop_size": {0}, "do_center_crop": true, )"
                     R"("feature_extractor_type": "CLIPFeatureExtractor", "size": {0}}})",
                     image, kNormalize);
}

// What the published template of transformers' form gives; the original's conversations are the
// family's own.
constexpr std::string_view kCurrentTemplate =
    R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}{{- '<IMG_CONTEXT>\n' -}}
{%- elif part.type == 'video' -%}{{- '<video>\n' -}}
{%- elif part.type == 'text' -%}{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
)";

Result<DummyCheckpoint> dummy(std::string_view size) {
  const bool current = size.ends_with(kCurrent);
  if (current) size.remove_suffix(kCurrent.size());
  const DummySize& s = size_named(kDummySizes, size);
  const DummyTokens tokens = tokens_of(s.text);
  DummyCheckpoint checkpoint;
  auto id = static_cast<TokenId>(s.pieces);
  if (tokens.llama_like) checkpoint.special_tokens = {{0, "<unk>"}, {1, "<s>"}, {2, "</s>"}};
  for (const std::string_view name : tokens.names)
    checkpoint.special_tokens.push_back({id++, std::string(name)});
  const TokenId context = id + static_cast<TokenId>(kContextToken);
  for (const std::string_view name : std::span(kImageTokens).first(current ? 10 : 9))
    checkpoint.special_tokens.push_back({id++, std::string(name)});
  checkpoint.files = {
      {"config.json", current ? current_config(s, context) : original_config(s)},
      {"generation_config.json", fmt::format(R"({{"eos_token_id": [{}]}})", s.pieces + tokens.end)},
      {"preprocessor_config.json", preprocessor_config(s.tower.image, current)}};
  if (current) checkpoint.chat_template = kCurrentTemplate;
  checkpoint.tokenizer_pieces = s.pieces;
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "PreTrainedTokenizerFast";
  checkpoint.end_token = tokens.names[static_cast<std::size_t>(tokens.end)];
  checkpoint.pad_token = tokens.llama_like ? "</s>" : tokens.names.front();
  return checkpoint;
}

}  // namespace

extern const DummySizes kInternVl2Dummies;
const DummySizes kInternVl2Dummies = {kDummyNames, dummy};

}  // namespace saccade
