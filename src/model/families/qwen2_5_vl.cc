// Qwen2.5-VL (3B, 7B, 72B). Reference: transformers' models/qwen2_5_vl; paper arXiv:2502.13923.
//
// Three odd things:
//  - Most vision layers attend inside windows of 112 x 112 pixels; only those that
//    fullatt_block_indexes names see the whole image. Rows stand by window from the first layer on
//    and are put back after the merger.
//  - The tower is built like the text: RMSNorm and a gated MLP, whose inner width (3420) is odd to
//    every kernel.
//  - Positions and image sizes are Qwen2-VL's, but a video's groups of frames stand on the time
//  axis
//    by the seconds between them, times tokens_per_second.
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
  tower.norm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = false};
  tower.gated = true;
  tower.embed = 3584;
  tower.inner = 3420;
  tower.out = 3584;
  std::int64_t window = 112;
  const std::array fields = {
      ExtentField{"depth", &tower.depth, 1024},
      ExtentField{"hidden_size", &tower.embed, 1 << 16},
      ExtentField{"intermediate_size", &tower.inner, 1 << 18},
      ExtentField{"num_heads", &tower.heads, 1024},
      ExtentField{"in_channels", &tower.channels, 3},
      ExtentField{"patch_size", &tower.patch, 256},
      ExtentField{"spatial_merge_size", &tower.merge, 16},
      ExtentField{"temporal_patch_size", &tower.frames, 16},
      ExtentField{"window_size", &window, 1 << 16},
      ExtentField{"out_hidden_size", &tower.out, 1 << 16},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  tower.window = window / tower.merge / tower.patch;
  if (tower.window < 1)
    return fail(ErrorCode::kInvalid, "vision_config.window_size is {}, a merged patch is {}",
                window, tower.merge * tower.patch);
  TRY(tower.whole_layers, vision_layers(*vision, "fullatt_block_indexes", {7, 15, 23, 31}));
  TRY(const std::string activation, json::get_string_or(*vision, "hidden_act", "silu"));
  TRY(tower.activation, parse_activation(activation));
  TRY(tower.rope_theta, vision_rope_theta(*vision));
  return tower;
}

Result<std::unique_ptr<LoadableModel>> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kTextDefaults));
  decoder.settings.qkv_bias = true;
  TRY(PatchTowerSettings tower, parse_vision(checkpoint.config));
  if (tower.out != decoder.settings.hidden)
    return fail(ErrorCode::kInvalid, "vision_config.out_hidden_size is {}, the text is {} wide",
                tower.out, decoder.settings.hidden);
  TRY(const json::object* vision, config_section(checkpoint.config, "vision_config"));
  std::int64_t tokens_per_second = 4;
  const std::array fields = {ExtentField{"tokens_per_second", &tokens_per_second, 100}};
  TRY_DO(read_extents(*vision, "vision_config", fields));
  return make_patch_model("qwen2.5-vl", checkpoint, std::move(decoder), std::move(tower),
                          VideoTime{tokens_per_second});
}

// --- checkpoints of random weights ---

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  bool tied;
  std::int64_t vocab, pieces;
  std::array<int, 3> sections;
  std::int64_t depth, embed, inner, vision_heads;
  std::string_view whole;
};
constexpr std::string_view kWhole = "7, 15, 23, 31";
constexpr std::array<int, 3> kSections = {16, 24, 24};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, true, 1280, 1200, {4, 6, 6}, 4, 128, 252, 4, "1, 3"},
    DummySize{"3b", 2048, 11008, 36, 16, 2, true, 151936, 151643, kSections, 32, 1280, 3420, 16,
              kWhole},
    DummySize{"7b", 3584, 18944, 28, 28, 4, false, 152064, 151643, kSections, 32, 1280, 3420, 16,
              kWhole},
    DummySize{"72b", 8192, 29568, 80, 64, 8, false, 152064, 151643, kSections, 32, 1280, 3456, 16,
              kWhole},
};
constexpr std::array<std::string_view, 4> kDummyNames = {"tiny", "3b", "7b", "72b"};

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
 "bos_token_id": {bos}, "eos_token_id": {eos}, "vision_start_token_id": {start}, "vision_end_token_id": {end},
 "vision_token_id": {pad}, "image_token_id": {image}, "video_token_id": {video},
 "hidden_act": "silu", "hidden_size": {hidden}, "intermediate_size": {intermediate}, "num_hidden_layers": {layers},
 "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "max_position_embeddings": 128000,
 "use_sliding_window": false, "sliding_window": 32768, "max_window_layers": {layers}, "rms_norm_eps": 1e-06,
 "rope_theta": 1000000.0, "rope_scaling": {{"type": "mrope", "mrope_section": [{t}, {h}, {w}]}},
 "tie_word_embeddings": {tied}, "torch_dtype": "bfloat16", "vocab_size": {vocab},
 "vision_config": {{"depth": {depth}, "hidden_act": "silu", "hidden_size": {embed}, "intermediate_size": {inner},
  "num_heads": {vision_heads}, "in_chans": 3, "out_hidden_size": {hidden}, "patch_size": 14, "spatial_merge_size": 2,
  "spatial_patch_size": 14, "window_size": 112, "fullatt_block_indexes": [{whole}], "tokens_per_second": 2,
  "temporal_patch_size": 2}}}}
)",
      arg("bos", s.pieces), arg("eos", s.pieces + 2), arg("start", s.pieces + 9),
      arg("end", s.pieces + 10), arg("pad", s.pieces + 11), arg("image", s.pieces + 12),
      arg("video", s.pieces + 13), arg("hidden", s.hidden), arg("intermediate", s.intermediate),
      arg("layers", s.layers), arg("heads", s.heads), arg("kv_heads", s.kv_heads),
      arg("t", s.sections[0]), arg("h", s.sections[1]), arg("w", s.sections[2]),
      arg("tied", s.tied), arg("vocab", s.vocab), arg("depth", s.depth), arg("embed", s.embed),
      arg("inner", s.inner), arg("vision_heads", s.vision_heads), arg("whole", s.whole));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(
           R"({{"bos_token_id": {0}, "pad_token_id": {0}, "do_sample": true, "eos_token_id": [{1}, {0}], "repetition_penalty": 1.05, "temperature": 0.000001}})",
           found->pieces, found->pieces + 2)},
      {"preprocessor_config.json", qwen_preprocessor_config("Qwen2_5_VLProcessor")}};
  describe_qwen_vision_tokenizer(found->pieces, checkpoint);
  return checkpoint;
}

// --- what checkpoints call themselves ---

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen2_5_VLForConditionalGeneration"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen2_5_vl"};
// Current transformers' names to the hub's.
constexpr std::array kAliases = {NameAlias{"model.visual.", "visual."},
                                 NameAlias{"model.language_model.", "model."}};

}  // namespace

extern const Family kQwen25Vl;
const Family kQwen25Vl = {.name = "qwen2.5-vl",
                          .architectures = kArchitectures,
                          .model_types = kModelTypes,
                          .aliases = kAliases,
                          .sizes = kDummyNames,
                          .create = create,
                          .dummy = dummy};

}  // namespace saccade
