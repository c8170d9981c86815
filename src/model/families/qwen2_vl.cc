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
#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
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

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kTextDefaults));
  decoder.settings.qkv_bias = true;
  TRY(PatchTowerSettings tower, parse_vision(checkpoint.config));
  tower.out = decoder.settings.hidden;
  return make_patch_model("qwen2-vl", checkpoint, std::move(decoder), std::move(tower),
                          PatchMedia{});
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
                         .create = create};

}  // namespace saccade
