// Checkpoints of random weights of InternVL2.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

enum class Text { kInternLm2, kQwen2, kPhi3 };

struct DummySize {
  std::string_view name;
  Text text;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  std::int64_t vocab, pieces;
  double ntk_factor;
  std::int64_t depth, width, inner, vision_heads, image;
  bool big_tower;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", Text::kInternLm2, 128, 256, 4, 4, 2, 1280, 1200, 2, 4, 64, 152, 4, 56, false},
    DummySize{"1b", Text::kQwen2, 896, 4864, 24, 14, 2, 151655, 151643, 0, 24, 1024, 4096, 16, 448,
              false},
    DummySize{"2b", Text::kInternLm2, 2048, 8192, 24, 16, 8, 92553, 92538, 2, 24, 1024, 4096, 16,
              448, false},
    DummySize{"4b", Text::kPhi3, 3072, 8192, 32, 32, 32, 32020, 32000, 0, 24, 1024, 4096, 16, 448,
              false},
    DummySize{"8b", Text::kInternLm2, 4096, 14336, 32, 32, 8, 92553, 92538, 2, 24, 1024, 4096, 16,
              448, false},
    DummySize{"26b", Text::kInternLm2, 6144, 16384, 48, 48, 8, 92553, 92538, 3, 45, 3200, 12800, 25,
              448, true},
};
constexpr std::array<std::string_view, 6> kDummyNames = {"tiny", "1b", "2b", "4b", "8b", "26b"};

// Special tokens from the first after the pieces on; those of images follow.
struct DummyTokens {
  std::span<const std::string_view> names;
  bool llama_like;  // <unk>, <s> and </s> come first of all
  std::int64_t end;
};
constexpr std::array<std::string_view, 3> kQwen2Tokens = {"<|endoftext|>", "<|im_start|>",
                                                          "<|im_end|>"};
constexpr std::array<std::string_view, 6> kInternLm2Tokens = {"<|plugin|>",     "<|interpreter|>",
                                                              "<|action_end|>", "<|action_start|>",
                                                              "<|im_end|>",     "<|im_start|>"};
constexpr std::array<std::string_view, 11> kPhi3Tokens = {
    "<|endoftext|>",    "<|assistant|>",    "<|placeholder1|>", "<|placeholder2|>",
    "<|placeholder3|>", "<|placeholder4|>", "<|system|>",       "<|end|>",
    "<|placeholder5|>", "<|placeholder6|>", "<|user|>"};
constexpr std::array<std::string_view, 9> kImageTokens = {
    "<img>", "</img>", "<IMG_CONTEXT>", "<quad>", "</quad>", "<ref>", "</ref>", "<box>", "</box>"};

DummyTokens tokens_of(Text text) {
  switch (text) {
    case Text::kInternLm2:
      return {kInternLm2Tokens, true, 4};
    case Text::kQwen2:
      return {kQwen2Tokens, false, 2};
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

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  const std::string_view format = s.text == Text::kInternLm2 ? "internlm2-chat"
                                  : s.text == Text::kQwen2   ? "Hermes-2"
                                                             : "phi3-chat";
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
      arg("image", s.image), arg("format", format), arg("text", dummy_text(s)),
      arg("width", s.width), arg("inner", s.inner),
      arg("norm", s.big_tower ? "rms_norm" : "layer_norm"), arg("heads", s.vision_heads),
      arg("depth", s.depth), arg("big", s.big_tower), arg("bias", !s.big_tower));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  const DummyTokens tokens = tokens_of(found->text);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(R"({{"eos_token_id": [{}]}})", found->pieces + tokens.end)},
      {"preprocessor_config.json",
       fmt::format(
           R"({{"crop_size": {0}, "do_center_crop": true, "do_normalize": true, "do_resize": true, )"
           R"("feature_extractor_type": "CLIPFeatureExtractor", "image_mean": [0.485, 0.456, 0.406], )"
           R"("image_std": [0.229, 0.224, 0.225], "resample": 3, "size": {0}}})",
           found->image)}};
  checkpoint.tokenizer_pieces = found->pieces;
  auto id = static_cast<TokenId>(found->pieces);
  if (tokens.llama_like) checkpoint.special_tokens = {{0, "<unk>"}, {1, "<s>"}, {2, "</s>"}};
  for (const std::string_view name : tokens.names)
    checkpoint.special_tokens.push_back({id++, std::string(name)});
  for (const std::string_view name : kImageTokens)
    checkpoint.special_tokens.push_back({id++, std::string(name)});
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
