// Checkpoints of random weights of Gemma 3.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/dummies/qwen_dummy.h"
#include "model/families/known_templates.h"

namespace saccade {
namespace {

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, scalar, window;
  std::int64_t vocab, pieces;
  std::int64_t depth, width, inner, vision_heads, image, tokens;  // depth 0: text alone
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 64, 128, 7, 4, 2, 32, 32, 64, 1280, 1200, 3, 64, 152, 4, 56, 4},
    DummySize{"270m", 640, 2048, 18, 4, 1, 256, 256, 512, 262144, 262000, 0, 0, 0, 0, 0, 0},
    DummySize{"1b", 1152, 6912, 26, 4, 1, 256, 256, 512, 262144, 262000, 0, 0, 0, 0, 0, 0},
    DummySize{"4b", 2560, 10240, 34, 8, 4, 256, 256, 1024, 262208, 262000, 27, 1152, 4304, 16, 896,
              256},
    DummySize{"12b", 3840, 15360, 48, 16, 8, 256, 256, 1024, 262208, 262000, 27, 1152, 4304, 16,
              896, 256},
    DummySize{"27b", 5376, 21504, 62, 32, 16, 128, 168, 1024, 262208, 262000, 27, 1152, 4304, 16,
              896, 256},
};
constexpr std::array<std::string_view, 6> kDummyNames = {"tiny", "270m", "1b", "4b", "12b", "27b"};
constexpr std::array kSpecialTokens = {"<pad>",          "<eos>",
                                       "<bos>",          "<start_of_turn>",
                                       "<end_of_turn>",  "<start_of_image>",
                                       "<end_of_image>", "<image_soft_token>"};

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  const std::string text = fmt::format(
      R"("attention_bias": false, "attn_logit_softcapping": null, "final_logit_softcapping": null, "head_dim": {head_dim},
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": {hidden}, "intermediate_size": {intermediate},
  "max_position_embeddings": {length}, "num_attention_heads": {heads}, "num_hidden_layers": {layers},
  "num_key_value_heads": {kv_heads}, "query_pre_attn_scalar": {scalar}, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
  {stretch}"rope_theta": 1000000.0, "sliding_window": {window}, "sliding_window_pattern": 6, "vocab_size": {vocab})",
      arg("head_dim", s.head_dim), arg("hidden", s.hidden), arg("intermediate", s.intermediate),
      arg("length", s.depth > 0 ? 131072 : 32768), arg("heads", s.heads), arg("layers", s.layers),
      arg("kv_heads", s.kv_heads), arg("scalar", s.scalar),
      arg("stretch",
          s.depth > 0 ? R"("rope_scaling": {"factor": 8.0, "rope_type": "linear"}, )" : ""),
      arg("window", s.window), arg("vocab", s.vocab));
  const std::string ends =
      fmt::format(R"("bos_token_id": {}, "eos_token_id": [{}, {}], "pad_token_id": {})",
                  s.pieces + 2, s.pieces + 1, s.pieces + 4, s.pieces);
  if (s.depth == 0)
    return fmt::format(
        R"({{"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "torch_dtype": "bfloat16",
  {}, {}}}
)",
        ends, text);
  return fmt::format(
      R"({{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "torch_dtype": "bfloat16",
 {ends}, "boi_token_index": {boi}, "eoi_token_index": {eoi}, "image_token_index": {image_token}, "mm_tokens_per_image": {tokens},
 "text_config": {{"model_type": "gemma3_text", {text}}},
 "vision_config": {{"hidden_act": "gelu_pytorch_tanh", "hidden_size": {width}, "image_size": {image}, "intermediate_size": {inner},
  "layer_norm_eps": 1e-06, "model_type": "siglip_vision_model", "num_attention_heads": {vision_heads}, "num_hidden_layers": {depth},
  "patch_size": 14, "vision_use_head": false}}}}
)",
      arg("ends", ends), arg("boi", s.pieces + 5), arg("eoi", s.pieces + 6),
      arg("image_token", s.pieces + 7), arg("tokens", s.tokens), arg("text", text),
      arg("width", s.width), arg("image", s.image), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("depth", s.depth));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(
           R"({{"bos_token_id": {}, "eos_token_id": [{}, {}], "pad_token_id": {}, "do_sample": true, )"
           R"("top_k": 64, "top_p": 0.95}})",
           found->pieces + 2, found->pieces + 1, found->pieces + 4, found->pieces)}};
  if (found->depth > 0)
    checkpoint.files.push_back(
        {"preprocessor_config.json",
         fmt::format(
             R"({{"do_pan_and_scan": null, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "image_seq_length": {1}, )"
             R"("resample": 2, "size": {{"height": {0}, "width": {0}}}, "image_processor_type": "Gemma3ImageProcessor", )"
             R"("processor_class": "Gemma3Processor"}})",
             found->image, found->tokens)});
  checkpoint.chat_template = kGemma3Template;
  checkpoint.tokenizer_pieces = found->pieces;
  for (const char* token : kSpecialTokens)
    checkpoint.special_tokens.push_back(
        {static_cast<TokenId>(found->pieces +
                              static_cast<std::int64_t>(checkpoint.special_tokens.size())),
         token});
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "GemmaTokenizer";
  checkpoint.tokenizer_options.begin = "<bos>";
  checkpoint.end_token = "<eos>";
  checkpoint.pad_token = "<pad>";
  return checkpoint;
}

}  // namespace

extern const DummySizes kGemma3Dummies;
const DummySizes kGemma3Dummies = {kDummyNames, dummy};

}  // namespace saccade
