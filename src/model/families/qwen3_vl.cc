// Qwen3-VL, dense (2B, 4B, 8B, 32B) and as mixtures of experts (30B-A3B, 235B-A22B). Reference:
// transformers' models/qwen3_vl and qwen3_vl_moe; report arXiv:2511.21631.
//
// Five odd things:
//  - DeepStack: after three of the vision layers a merger of their own makes rows that are added to
//    the image's tokens after the first three text layers. An embedding row is four times as wide
//    as the text.
//  - Patches have learnt positions besides their angles: a square of 48 x 48, stretched over each
//    image.
//  - The axes of a position take turns along a head's frequencies instead of having a section each.
//  - The mixtures' experts are stored as one tensor a layer, inputs by outputs.
//  - A video is its groups of frames one by one, as images, each after its time written as text.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "model/config_section.h"
#include "model/decoder_config.h"
#include "model/family.h"
#include "model/patch_model.h"
#include "model/text_network.h"

namespace saccade {
namespace {

// --- configuration ---

constexpr DecoderDefaults kTextDefaults = {.norm_epsilon = 1e-6,
                                           .rope_theta = 500000,
                                           .max_position = 128000,
                                           .tied_head = false,
                                           .head_dim = 128,
                                           .interleaved_sections = true,
                                           .sections = {24, 20, 20}};

const PatchTowerNames kTowerNames = {.tower = "model.visual.",
                                     .mlp_in = "mlp.linear_fc1",
                                     .mlp_out = "mlp.linear_fc2",
                                     .merger_norm = "norm",
                                     .merger_in = "linear_fc1",
                                     .merger_out = "linear_fc2"};

// Bounds of videos are of all frames together, those of images are not.
const PatchMedia kMedia = {.videos = kVolumeVideos, .video_text = VideoText::kTimesBefore};

DecoderNames text_names() {
  DecoderNames names;
  names.embedding = "model.language_model.embed_tokens";
  names.layer = "model.language_model.layers.{}.";
  names.norm = "model.language_model.norm";
  names.experts.stacked = true;
  return names;
}

Result<PatchTowerSettings> parse_vision(const json::object& config) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  PatchTowerSettings tower;
  tower.norm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};
  tower.depth = 27;
  tower.embed = 1152;
  tower.inner = 4304;
  tower.patch = 16;
  tower.patch_bias = true;
  tower.out = 3584;
  tower.names = kTowerNames;
  std::int64_t positions = 48 * 48;
  const std::array fields = {
      ExtentField{"depth", &tower.depth, 1024},
      ExtentField{"hidden_size", &tower.embed, 1 << 16},
      ExtentField{"intermediate_size", &tower.inner, 1 << 18},
      ExtentField{"num_heads", &tower.heads, 1024},
      ExtentField{"in_channels", &tower.channels, 3},
      ExtentField{"patch_size", &tower.patch, 256},
      ExtentField{"spatial_merge_size", &tower.merge, 16},
      ExtentField{"temporal_patch_size", &tower.frames, 16},
      ExtentField{"out_hidden_size", &tower.out, 1 << 16},
      ExtentField{"num_position_embeddings", &positions, 1 << 20},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  while (tower.positions * tower.positions < positions) ++tower.positions;
  if (tower.positions * tower.positions != positions)
    return fail(ErrorCode::kUnsupported,
                "vision_config.num_position_embeddings {} is not the square of a side", positions);
  TRY(tower.deepstack, vision_layers(*vision, "deepstack_visual_indexes", {8, 16, 24}));
  TRY(const std::string activation,
      json::get_string_or(*vision, "hidden_act", "gelu_pytorch_tanh"));
  TRY(tower.activation, parse_activation(activation));
  TRY(tower.rope_theta, vision_rope_theta(*vision));
  return tower;
}

// What the mixtures' class says where a file is silent. Weights of chosen experts always sum to 1.
const ExpertSettings kExperts = {
    .count = 60, .per_token = 4, .intermediate = 1408, .normalise = true, .layers = {}};

Result<void> parse_experts(const json::object& text, DecoderSettings& settings) {
  TRY_DO(read_experts(text, kExperts, settings));
  settings.experts.normalise = true;  // there is no such field
  return {};
}

Result<UnloadedModel> create_of(const Checkpoint& checkpoint, bool experts) {
  DecoderDefaults defaults = kTextDefaults;
  if (experts) defaults.head_dim = 0;
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, defaults));
  const json::object& section = text_section(checkpoint.config);
  TRY_DO(read_biases(section, decoder.settings));
  if (experts) TRY_DO(parse_experts(section, decoder.settings));
  decoder.settings.mlp_bias = false;  // there is no such field
  TRY(PatchTowerSettings tower, parse_vision(checkpoint.config));
  DecoderSettings& text = decoder.settings;
  if (tower.out != text.hidden)
    return fail(ErrorCode::kInvalid, "vision_config.out_hidden_size is {}, the text is {} wide",
                tower.out, text.hidden);
  if (tower.deepstack.size() > text.layers.size())
    return fail(ErrorCode::kInvalid,
                "vision_config.deepstack_visual_indexes names {} layers, the text has {}",
                tower.deepstack.size(), text.layers.size());
  text.qk_norm = true;
  text.deepstack = static_cast<std::int64_t>(tower.deepstack.size());
  return make_patch_model(experts ? "qwen3-vl-moe" : "qwen3-vl", checkpoint, std::move(decoder),
                          std::move(tower), kMedia, text_names());
}

Result<UnloadedModel> create(const Checkpoint& checkpoint) { return create_of(checkpoint, false); }
Result<UnloadedModel> create_moe(const Checkpoint& checkpoint) {
  return create_of(checkpoint, true);
}

// --- what checkpoints call themselves ---

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen3VLForConditionalGeneration"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen3_vl"};
constexpr std::array<std::string_view, 1> kMoeArchitectures = {
    "Qwen3VLMoeForConditionalGeneration"};
constexpr std::array<std::string_view, 1> kMoeModelTypes = {"qwen3_vl_moe"};

}  // namespace

extern const DummySizes kQwen3VlDummies;
extern const Family kQwen3Vl;
const Family kQwen3Vl = {.name = "qwen3-vl",
                         .architectures = kArchitectures,
                         .model_types = kModelTypes,
                         .aliases = {},
                         .create = create,
                         .dummies = &kQwen3VlDummies};

extern const DummySizes kQwen3VlMoeDummies;
extern const Family kQwen3VlMoe;
const Family kQwen3VlMoe = {.name = "qwen3-vl-moe",
                            .architectures = kMoeArchitectures,
                            .model_types = kMoeModelTypes,
                            .aliases = {},
                            .create = create_moe,
                            .dummies = &kQwen3VlMoeDummies};

}  // namespace saccade
