// Checkpoints of random weights of PaliGemma and PaliGemma 2.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  bool second;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  std::int64_t vocab, image_token;
  std::int64_t depth, width, inner, vision_heads, image;
};
constexpr DummySize first(std::string_view name, std::int64_t image) {
  return {name, false, 2048, 16384, 18, 8, 1, 256, 257216, 257152, 27, 1152, 4304, 16, image};
}
constexpr DummySize second_3b(std::string_view name, std::int64_t image) {
  return {name, true, 2304, 9216, 26, 8, 4, 256, 257216, 257152, 27, 1152, 4304, 16, image};
}
constexpr DummySize second_10b(std::string_view name, std::int64_t image) {
  return {name, true, 3584, 14336, 42, 16, 8, 256, 257216, 257152, 27, 1152, 4304, 16, image};
}
constexpr std::array kDummySizes = {
    DummySize{"tiny", false, 64, 256, 4, 4, 1, 32, 1280, 1200, 3, 64, 152, 4, 56},
    DummySize{"tiny", true, 64, 256, 4, 4, 2, 32, 1280, 1200, 3, 64, 152, 4, 56},
    first("3b-224", 224),
    first("3b-448", 448),
    first("3b-896", 896),
    second_3b("3b-224", 224),
    second_3b("3b-448", 448),
    second_3b("3b-896", 896),
    second_10b("10b-224", 224),
    second_10b("10b-448", 448),
    second_10b("10b-896", 896),
};
constexpr std::array<std::string_view, 4> kDummyNames = {"tiny", "3b-224", "3b-448", "3b-896"};
constexpr std::array<std::string_view, 7> kDummyNames2 = {"tiny",    "3b-224",  "3b-448", "3b-896",
                                                          "10b-224", "10b-448", "10b-896"};

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  const std::string_view gemma2 =
      R"("attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256,
  "sliding_window": 4096, )";
  return fmt::format(
      R"({{"architectures": ["PaliGemmaForConditionalGeneration"], "model_type": "paligemma",
 "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "image_token_index": {image_token},
 "hidden_size": {projection}, "projection_dim": {hidden}, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
 "text_config": {{{gemma2}"head_dim": {head_dim}, "{activation}": "gelu_pytorch_tanh", "hidden_size": {hidden},
  "intermediate_size": {intermediate}, "model_type": "{type}", "num_attention_heads": {heads},
  "num_hidden_layers": {layers}, "num_key_value_heads": {kv_heads}, "tie_word_embeddings": true, "vocab_size": {vocab}}},
 "vision_config": {{"hidden_act": "gelu_pytorch_tanh", "hidden_size": {width}, "image_size": {image},
  "intermediate_size": {inner}, "model_type": "siglip_vision_model", "num_attention_heads": {vision_heads},
  "num_hidden_layers": {depth}, "patch_size": 14, "projection_dim": {hidden}, "vision_use_head": false}}}}
)",
      arg("image_token", s.image_token), arg("projection", s.hidden), arg("hidden", s.hidden),
      arg("gemma2", s.second ? gemma2 : ""), arg("head_dim", s.head_dim),
      arg("activation", s.second ? "hidden_activation" : "hidden_act"),
      arg("intermediate", s.intermediate), arg("type", s.second ? "gemma2" : "gemma"),
      arg("heads", s.heads), arg("layers", s.layers), arg("kv_heads", s.kv_heads),
      arg("vocab", s.vocab), arg("width", s.width), arg("image", s.image), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("depth", s.depth));
}

Result<DummyCheckpoint> dummy_of(bool second, std::string_view size) {
  const auto found = std::ranges::find_if(kDummySizes, [&](const DummySize& each) {
    return each.name == size && each.second == second;
  });
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json", R"({"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0})"},
      {"preprocessor_config.json",
       fmt::format(
           R"({{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "image_seq_length": {1}, "resample": 3, )"
           R"("size": {{"height": {0}, "width": {0}}}, "image_processor_type": "SiglipImageProcessor", )"
           R"("processor_class": "PaliGemmaProcessor"}})",
           found->image, (found->image / 14) * (found->image / 14))}};
  checkpoint.tokenizer_pieces = found->image_token;
  checkpoint.special_tokens = {{0, "<pad>"},
                               {1, "<eos>"},
                               {2, "<bos>"},
                               {static_cast<TokenId>(found->image_token), "<image>"}};
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "GemmaTokenizer";
  checkpoint.tokenizer_options.begin = "<bos>";
  checkpoint.end_token = "<eos>";
  checkpoint.pad_token = "<pad>";
  return checkpoint;
}
Result<DummyCheckpoint> dummy(std::string_view size) { return dummy_of(false, size); }
Result<DummyCheckpoint> dummy2(std::string_view size) { return dummy_of(true, size); }

}  // namespace

extern const DummySizes kPaligemmaDummies;
const DummySizes kPaligemmaDummies = {kDummyNames, dummy};
extern const DummySizes kPaligemma2Dummies;
const DummySizes kPaligemma2Dummies = {kDummyNames2, dummy2};

}  // namespace saccade
