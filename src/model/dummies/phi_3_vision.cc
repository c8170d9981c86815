// Checkpoints of random weights of Phi-3-vision and Phi-3.5-vision.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads;
  std::int64_t vocab, pieces;
  std::int64_t max_position, original;
  std::int64_t crops, window;
  bool clip_l;  // the tower that published files name; else one of 64 wide and 3 layers
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 1280, 1200, 32768, 1024, 4, 32768, false},
    DummySize{"4b", 3072, 8192, 32, 32, 32064, 32000, 131072, 4096, 16, 131072, true},
    DummySize{"3.5-4b", 3072, 8192, 32, 32, 32064, 32000, 131072, 4096, 4, 262144, true},
};
constexpr std::array<std::string_view, 3> kDummyNames = {"tiny", "4b", "3.5-4b"};
// After the pieces, as in the published vocabulary.
struct DummyToken {
  std::int64_t after_pieces;
  std::string_view text;
};
constexpr std::array kSpecialTokens = {
    DummyToken{0, "<|endoftext|>"}, DummyToken{1, "<|assistant|>"}, DummyToken{6, "<|system|>"},
    DummyToken{7, "<|end|>"},       DummyToken{10, "<|user|>"},     DummyToken{44, "<|image|>"}};

constexpr std::string_view kChatTemplate =
    R"({% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}{{- '<|assistant|>\n' -}}{% endif %})";

// Rising from 1 to `last`, one a pair.
std::string rising_factors(std::int64_t pairs, double last) {
  std::string list;
  for (std::int64_t i = 0; i < pairs; ++i)
    list += fmt::format("{}{:.4f}", i == 0 ? "" : ", ",
                        std::pow(last, static_cast<double>(i) / static_cast<double>(pairs - 1)));
  return list;
}

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  const std::string_view clip_l = R"("image_dim_out": 1024, "num_img_tokens": 144)";
  const std::string_view small =
      R"("image_dim_out": 64, "num_img_tokens": 4, "hidden_size": 64, "image_size": 56,
  "intermediate_size": 152, "num_attention_heads": 4, "num_hidden_layers": 3)";
  const std::int64_t pairs = s.hidden / s.heads / 2;
  return fmt::format(
      R"({{"architectures": ["Phi3VForCausalLM"], "model_type": "phi3_v", "bos_token_id": 1, "eos_token_id": 2,
 "embd_layer": {{"embedding_cls": "image", "hd_transform_order": "sub_glb", "projection_cls": "mlp",
  "use_hd_transform": true, "with_learnable_separator": true}},
 "hidden_act": "silu", "hidden_size": {hidden},
 "img_processor": {{"model_name": "openai/clip-vit-large-patch14-336", "name": "clip_vision_model", {tower}}},
 "intermediate_size": {intermediate}, "max_position_embeddings": {max_position}, "num_attention_heads": {heads},
 "num_hidden_layers": {layers}, "num_key_value_heads": {heads}, "original_max_position_embeddings": {original},
 "pad_token_id": {pieces}, "rms_norm_eps": 1e-05,
 "rope_scaling": {{"long_factor": [{long_factor}],
  "short_factor": [{short_factor}], "type": "su"}},
 "rope_theta": 10000.0, "sliding_window": {window}, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
 "vocab_size": {vocab}}}
)",
      arg("hidden", s.hidden), arg("tower", s.clip_l ? clip_l : small),
      arg("intermediate", s.intermediate), arg("max_position", s.max_position),
      arg("heads", s.heads), arg("layers", s.layers), arg("original", s.original),
      arg("pieces", s.pieces), arg("long_factor", rising_factors(pairs, 64)),
      arg("short_factor", rising_factors(pairs, 3)), arg("window", s.window),
      arg("vocab", s.vocab));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  const std::int64_t pieces = found->pieces;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(R"({{"bos_token_id": 1, "eos_token_id": [{0}, {1}, {2}], "pad_token_id": {0}}})",
                   pieces, pieces + 1, pieces + 7)},
      {"preprocessor_config.json",
       fmt::format(R"({{"image_mean": [0.48145466, 0.4578275, 0.40821073], )"
                   R"("image_std": [0.26862954, 0.26130258, 0.27577711], "num_crops": {}, )"
                   R"("num_img_tokens": {}, "image_processor_type": "Phi3VImageProcessor", )"
                   R"("processor_class": "Phi3VProcessor"}})",
                   found->crops, found->clip_l ? 144 : 4)}};
  checkpoint.chat_template = kChatTemplate;
  checkpoint.tokenizer_pieces = pieces;
  checkpoint.special_tokens = {{0, "<unk>"}, {1, "<s>"}, {2, "</s>"}};
  for (const DummyToken& token : kSpecialTokens)
    checkpoint.special_tokens.push_back(
        {static_cast<TokenId>(pieces + token.after_pieces), std::string(token.text)});
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "LlamaTokenizer";
  checkpoint.tokenizer_options.begin = "<s>";
  checkpoint.end_token = "<|endoftext|>";
  checkpoint.pad_token = "<|endoftext|>";
  return checkpoint;
}

}  // namespace

extern const DummySizes kPhi3VisionDummies;
const DummySizes kPhi3VisionDummies = {kDummyNames, dummy};

}  // namespace saccade
