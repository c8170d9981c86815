// GLM-4.1V (9B). Reference: transformers' models/glm4v; report arXiv:2507.01006.
//
// Five odd things:
//  - Half of every head turns, neighbouring rows together; the frequencies have a section for each
//    axis of a position, as Qwen2-VL's.
//  - Attention and MLP are normed before and after.
//  - Patches have learnt positions besides their angles: a square of 24 x 24, stretched over each
//    image bicubically.
//  - Bounds on pixels are of a volume: an image counts as two equal frames.
//  - A video is its groups of frames one by one, as images whose tokens are an image's, each before
//    the whole seconds of its first frame as text.
#include <array>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/patch_model.h"
#include "model/towers/glm4v_tower.h"

namespace saccade {
namespace glm4v {
namespace {

// --- configuration ---

constexpr DecoderDefaults kTextDefaults = {.norm_epsilon = 1e-5,
                                           .rope_theta = 10000,
                                           .max_position = 32768,
                                           .tied_head = false,
                                           .tie_field = TieField::kEither,
                                           .sections = {8, 12, 12},
                                           .rotary_share = 1};

const PatchMedia kMedia = {.image_bounds_of = BoundsOf::kVolume,
                           .image_bounds = {112 * 112, 28 * 28 * 15000},
                           .videos = {.about = BoundsOf::kVolume,
                                      .bounds = {112 * 112, 28 * 28 * 2 * 30000},
                                      .sampling = SamplingRule::kTimes,
                                      .frames = {.fps = 2,
                                                 .num_frames = {},
                                                 .min_frames = 1,
                                                 .max_frames = kOwnMostFrames}},
                           .video_text = VideoText::kTimesAfter,
                           .words = {.image = "<|begin_of_image|><|image|><|end_of_image|>",
                                     .video = "<|begin_of_video|><|video|><|end_of_video|>",
                                     .placeholders = {"<|image|>", "<|video|>"},
                                     .video_start = "<|begin_of_video|>",
                                     .video_end = "<|end_of_video|>",
                                     .group = "<|begin_of_image|><|video|><|end_of_image|>",
                                     .image_token = 151343,
                                     .video_token = 151344}};

DecoderNames text_names() {
  DecoderNames names = DecoderNames::under("model.language_model.");
  names.neighbours_turn = true;
  names.post_attention_norm = "post_self_attn_layernorm";
  names.gate_up = {"mlp.gate_up_proj"};
  names.post_mlp_norm = "post_mlp_layernorm";
  return names;
}

Result<DecoderConfig> parse_text(const json::object& config) {
  TRY(DecoderConfig decoder, parse_decoder(config, kTextDefaults));
  DecoderSettings& text = decoder.settings;
  if (text.head_dim * text.heads != text.hidden)
    return fail(ErrorCode::kUnsupported, "head_dim is {}, {} heads of a width of {} have {}",
                text.head_dim, text.heads, text.hidden, text.hidden / text.heads);
  text.qkv_bias = true;
  text.post_norms = true;
  return decoder;
}

Result<Glm4vTowerSettings> parse_vision(const json::object& config) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  Glm4vTowerSettings tower;
  std::int64_t side = 336;
  const std::array fields = {
      ExtentField{"depth", &tower.depth, 1024},
      ExtentField{"hidden_size", &tower.embed, 1 << 16},
      ExtentField{"num_heads", &tower.heads, 1024},
      ExtentField{"in_channels", &tower.channels, 3},
      ExtentField{"image_size", &side, 1 << 16},
      ExtentField{"patch_size", &tower.patch, 256},
      ExtentField{"spatial_merge_size", &tower.merge, 16},
      ExtentField{"temporal_patch_size", &tower.frames, 16},
      ExtentField{"out_hidden_size", &tower.out, 1 << 16},
      ExtentField{"intermediate_size", &tower.merger_inner, 1 << 18},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  tower.positions = side / tower.patch;
  if (tower.positions < 1 || tower.positions > 1024)
    return fail(ErrorCode::kInvalid,
                "vision_config.image_size is {}, patches of {} have 1 to 1024 positions a side",
                side, tower.patch);
  TRY(const double epsilon, json::get_double_or(*vision, "rms_norm_eps", 1e-5));
  tower.norm.epsilon = static_cast<float>(epsilon);
  TRY(tower.qkv_bias, json::get_bool_or(*vision, "attention_bias", false));
  TRY(const std::string activation, json::get_string_or(*vision, "hidden_act", "silu"));
  TRY(tower.activation, parse_activation(activation));
  TRY(tower.rope_theta, vision_rope_theta(*vision));
  TRY_DO(check_glm4v_tower(tower));
  return tower;
}

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_text(checkpoint.config));
  TRY(const Glm4vTowerSettings tower, parse_vision(checkpoint.config));
  if (tower.out != decoder.settings.hidden)
    return fail(ErrorCode::kInvalid, "vision_config.out_hidden_size is {}, the text is {} wide",
                tower.out, decoder.settings.hidden);
  return make_patch_model(
      "glm-4.1v", checkpoint, std::move(decoder),
      MadeTower{make_glm4v_tower(tower),
                {.patch = tower.patch, .merge = tower.merge, .frames = tower.frames}},
      kMedia, text_names());
}

// --- what checkpoints call themselves ---

}  // namespace
}  // namespace glm4v

extern const Family kGlm4v;
const Family kGlm4v = {.name = "glm-4.1v",
                       .architectures = {"Glm4vForConditionalGeneration"},
                       .model_types = {"glm4v"},
                       .create = glm4v::create};

}  // namespace saccade
