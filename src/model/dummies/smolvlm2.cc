// Checkpoints of random weights of SmolVLM2.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"
#include "model/families/known_templates.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  std::int64_t vocab, pieces;
  std::int64_t depth, width, inner, vision_heads, image, patch, factor;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, 1328, 1200, 4, 64, 152, 4, 64, 16, 2},
    DummySize{"256m", 576, 1536, 30, 9, 3, 49280, 49152, 12, 768, 3072, 12, 512, 16, 4},
    DummySize{"500m", 960, 2560, 32, 15, 5, 49280, 49152, 12, 768, 3072, 12, 512, 16, 4},
    DummySize{"2.2b", 2048, 8192, 24, 32, 32, 49280, 49152, 27, 1152, 4304, 16, 384, 14, 3},
};
constexpr std::array<std::string_view, 4> kDummyNames = {"tiny", "256m", "500m", "2.2b"};

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["SmolVLMForConditionalGeneration"], "model_type": "smolvlm", "image_token_id": {image_token},
 "pad_token_id": 2, "scale_factor": {factor}, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
 "text_config": {{"architectures": ["VLlama3ForCausalLM"], "model_type": "llama", "bos_token_id": 1,
  "eos_token_id": {eos}, "hidden_size": {hidden}, "intermediate_size": {intermediate}, "num_hidden_layers": {layers},
  "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "rope_theta": 100000.0,
  "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "vocab_size": {vocab}}},
 "vision_config": {{"hidden_size": {width}, "image_size": {image}, "intermediate_size": {inner},
  "model_type": "smolvlm_vision", "num_attention_heads": {vision_heads}, "num_hidden_layers": {depth},
  "patch_size": {patch}}}}}
)",
      arg("image_token", s.pieces + 38), arg("factor", s.factor), arg("eos", s.pieces + 127),
      arg("hidden", s.hidden), arg("intermediate", s.intermediate), arg("layers", s.layers),
      arg("heads", s.heads), arg("kv_heads", s.kv_heads), arg("vocab", s.vocab),
      arg("width", s.width), arg("image", s.image), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("depth", s.depth), arg("patch", s.patch));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(R"({{"bos_token_id": 1, "eos_token_id": {}, "pad_token_id": 2}})",
                   found->pieces + 127)},
      {"preprocessor_config.json",
       fmt::format(
           R"({{"do_image_splitting": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
           R"("max_image_size": {{"longest_edge": {}}}, "resample": 1, "size": {{"longest_edge": {}}}, )"
           R"("image_processor_type": "SmolVLMImageProcessor", "processor_class": "SmolVLMProcessor"}})",
           found->image, 4 * found->image)}};
  checkpoint.chat_template = kSmolVlm2Template;
  checkpoint.tokenizer_pieces = found->pieces;
  const auto id = [&](std::int64_t after) { return static_cast<TokenId>(found->pieces + after); };
  checkpoint.special_tokens = {{0, "<|endoftext|>"}, {1, "<|im_start|>"}, {2, "<|im_end|>"}};
  checkpoint.special_tokens.push_back({id(0), "<global-img>"});
  for (int row = 0; row < 6; ++row) {
    for (int column = 0; column < 6; ++column)
      checkpoint.special_tokens.push_back(
          {id(1 + 6 * row + column), fmt::format("<row_{}_col_{}>", row + 1, column + 1)});
  }
  checkpoint.special_tokens.push_back({id(37), "<fake_token_around_image>"});
  checkpoint.special_tokens.push_back({id(38), "<image>"});
  checkpoint.special_tokens.push_back({id(127), "<end_of_utterance>"});
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "GPT2Tokenizer";
  checkpoint.end_token = "<end_of_utterance>";
  checkpoint.pad_token = "<|im_end|>";
  return checkpoint;
}

}  // namespace

extern const DummySizes kSmolVlm2Dummies;
const DummySizes kSmolVlm2Dummies = {kDummyNames, dummy};

}  // namespace saccade
