// Qwen2-VL (2B, 7B, 72B). Reference: transformers' models/qwen2_vl; paper arXiv:2409.12191.
//
// Three odd things:
//  - Images keep nearly their own size: sides are rounded to multiples of 28 and cut into 14-pixel
//    patches; every 2 x 2 of them become one token, and rows stand in that order from the start.
//  - A still image is two equal frames to the patch embedding (a Conv3d over 2 x 14 x 14).
//  - Positions have three axes (M-RoPE): the frequencies of a head are split among time, row and
//    column; text moves along all three alike.
#include <array>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/patch_model.h"

namespace saccade {
namespace qwen2_vl {
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

// Qwen2.5-VL (3B, 7B, 72B). Reference: transformers' models/qwen2_5_vl; paper arXiv:2502.13923.
//
// Three odd things:
//  - Most vision layers attend inside windows of 112 x 112 pixels; only those that
//    fullatt_block_indexes names see the whole image. Rows stand by window from the first layer on
//    and are put back after the merger.
//  - The tower is built like the text: RMSNorm and a gated MLP, whose inner width (3420) is odd to
//    every kernel.
//  - Positions and image sizes are Qwen2-VL's, but a video's groups of frames stand on the time
//    axis by the seconds between them, times tokens_per_second.
Result<PatchTowerSettings> parse_vision_2_5(const json::object& config) {
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

Result<UnloadedModel> create_2_5(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kTextDefaults));
  decoder.settings.qkv_bias = true;
  TRY(PatchTowerSettings tower, parse_vision_2_5(checkpoint.config));
  if (tower.out != decoder.settings.hidden)
    return fail(ErrorCode::kInvalid, "vision_config.out_hidden_size is {}, the text is {} wide",
                tower.out, decoder.settings.hidden);
  TRY(const json::object* vision, config_section(checkpoint.config, "vision_config"));
  std::int64_t tokens_per_second = 4;
  const std::array fields = {ExtentField{"tokens_per_second", &tokens_per_second, 100}};
  TRY_DO(read_extents(*vision, "vision_config", fields));
  return make_patch_model("qwen2.5-vl", checkpoint, std::move(decoder), std::move(tower),
                          PatchMedia{.tokens_per_second = tokens_per_second});
}

// --- what checkpoints call themselves ---

// Current transformers' names to the hub's.
constexpr std::array kAliases = {NameAlias{"model.visual.", "visual."},
                                 NameAlias{"model.language_model.", "model."}};

}  // namespace
}  // namespace qwen2_vl

extern const Family kQwen2Vl;
const Family kQwen2Vl = {.name = "qwen2-vl",
                         .architectures = {"Qwen2VLForConditionalGeneration"},
                         .model_types = {"qwen2_vl"},
                         .aliases = qwen2_vl::kAliases,
                         .create = qwen2_vl::create};

extern const Family kQwen25Vl;
const Family kQwen25Vl = {.name = "qwen2.5-vl",
                          .architectures = {"Qwen2_5_VLForConditionalGeneration"},
                          .model_types = {"qwen2_5_vl"},
                          .aliases = qwen2_vl::kAliases,
                          .create = qwen2_vl::create_2_5};

}  // namespace saccade
