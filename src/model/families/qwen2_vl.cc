// Qwen2-VL (2B, 7B, 72B). Reference: transformers' models/qwen2_vl; paper arXiv:2409.12191.
//
// Three odd things:
//  - Images keep nearly their own size: sides are rounded to multiples of 28 and cut into 14-pixel
//    patches; every 2 x 2 of them become one token, and rows stand in that order from the start.
//  - A still image is two equal frames to the patch embedding (a Conv3d over 2 x 14 x 14).
//  - Positions have three axes (M-RoPE): the frequencies of a head are split among time, row and
//    column; text moves along all three alike.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "model/families/qwen_dummy.h"
#include "model/patch_model.h"

namespace saccade {
namespace {

// --- configuration ---

constexpr DecoderDefaults kTextDefaults = {.norm_epsilon = 1e-5,
                                           .rope_theta = 1e6,
                                           .max_position = 32768,
                                           .sliding_window = 4096,
                                           .max_window_layers = 80,
                                           .tied_head = false,
                                           .tie_field = TieField::kEither};

Result<PatchTowerSettings> parse_vision(const json::object& config) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  PatchTowerSettings tower;
  tower.norm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};
  std::int64_t mlp_ratio = 4;
  const std::array fields = {
      ExtentField{"depth", &tower.depth, 1024},
      ExtentField{"embed_dim", &tower.embed, 1 << 16},
      ExtentField{"num_heads", &tower.heads, 1024},
      ExtentField{"mlp_ratio", &mlp_ratio, 64},
      ExtentField{"in_channels", &tower.channels, 3},
      ExtentField{"patch_size", &tower.patch, 256},
      ExtentField{"spatial_merge_size", &tower.merge, 16},
      ExtentField{"temporal_patch_size", &tower.frames, 16},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  tower.inner = tower.embed * mlp_ratio;
  TRY(const std::string activation, json::get_string_or(*vision, "hidden_act", "quick_gelu"));
  TRY(tower.activation, parse_activation(activation));
  TRY(tower.rope_theta, vision_rope_theta(*vision));
  return tower;
}

Result<std::unique_ptr<LoadableModel>> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kTextDefaults));
  decoder.settings.qkv_bias = true;
  TRY(PatchTowerSettings tower, parse_vision(checkpoint.config));
  tower.out = decoder.settings.hidden;
  return make_patch_model("qwen2-vl", checkpoint, std::move(decoder), std::move(tower),
                          VideoTime{});
}

// --- checkpoints of random weights ---

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  bool tied;
  std::int64_t vocab, pieces;
  std::array<int, 3> sections;
  std::int64_t depth, embed, vision_heads;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, true, 1280, 1200, {4, 6, 6}, 4, 128, 4},
    DummySize{"2b", 1536, 8960, 28, 12, 2, true, 151936, 151643, {16, 24, 24}, 32, 1280, 16},
    DummySize{"7b", 3584, 18944, 28, 28, 4, false, 152064, 151643, {16, 24, 24}, 32, 1280, 16},
    DummySize{"72b", 8192, 29568, 80, 64, 8, false, 152064, 151643, {16, 24, 24}, 32, 1280, 16},
};
constexpr std::array<std::string_view, 4> kDummyNames = {"tiny", "2b", "7b", "72b"};

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl",
 "bos_token_id": {bos}, "eos_token_id": {eos}, "vision_start_token_id": {start}, "vision_end_token_id": {end},
 "vision_token_id": {pad}, "image_token_id": {image}, "video_token_id": {video},
 "hidden_act": "silu", "hidden_size": {hidden}, "intermediate_size": {intermediate}, "num_hidden_layers": {layers},
 "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "max_position_embeddings": 32768,
 "use_sliding_window": false, "sliding_window": 32768, "max_window_layers": {layers}, "rms_norm_eps": 1e-06,
 "rope_theta": 1000000.0, "rope_scaling": {{"type": "mrope", "mrope_section": [{t}, {h}, {w}]}},
 "tie_word_embeddings": {tied}, "torch_dtype": "bfloat16", "vocab_size": {vocab},
 "vision_config": {{"depth": {depth}, "embed_dim": {embed}, "num_heads": {vision_heads}, "mlp_ratio": 4,
  "in_chans": 3, "hidden_size": {hidden}, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
  "temporal_patch_size": 2}}}}
)",
      arg("bos", s.pieces), arg("eos", s.pieces + 2), arg("start", s.pieces + 9),
      arg("end", s.pieces + 10), arg("pad", s.pieces + 11), arg("image", s.pieces + 12),
      arg("video", s.pieces + 13), arg("hidden", s.hidden), arg("intermediate", s.intermediate),
      arg("layers", s.layers), arg("heads", s.heads), arg("kv_heads", s.kv_heads),
      arg("t", s.sections[0]), arg("h", s.sections[1]), arg("w", s.sections[2]),
      arg("tied", s.tied), arg("vocab", s.vocab), arg("depth", s.depth), arg("embed", s.embed),
      arg("vision_heads", s.vision_heads));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(
           R"({{"bos_token_id": {0}, "pad_token_id": {0}, "do_sample": true, "eos_token_id": [{1}, {0}], "temperature": 0.01, "top_p": 0.001, "top_k": 1}})",
           found->pieces, found->pieces + 2)},
      {"preprocessor_config.json", qwen_preprocessor_config("Qwen2VLProcessor")}};
  describe_qwen_vision_tokenizer(found->pieces, checkpoint);
  return checkpoint;
}

// --- what checkpoints call themselves ---

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen2VLForConditionalGeneration"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen2_vl"};
// Current transformers' names to the hub's.
constexpr std::array kAliases = {NameAlias{"model.visual.", "visual."},
                                 NameAlias{"model.language_model.", "model."}};

}  // namespace

extern const Family kQwen2Vl;
const Family kQwen2Vl = {.name = "qwen2-vl",
                         .architectures = kArchitectures,
                         .model_types = kModelTypes,
                         .aliases = kAliases,
                         .sizes = kDummyNames,
                         .create = create,
                         .dummy = dummy};

}  // namespace saccade
