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
#include <utility>

#include "model/checkpoint/decoder_config.h"
#include "model/families/qwen3_tower.h"
#include "model/family.h"
#include "model/patch_model.h"

namespace saccade {
namespace qwen3_vl {
namespace {

// --- configuration ---

constexpr DecoderDefaults kTextDefaults = {.norm_epsilon = 1e-6,
                                           .rope_theta = 500000,
                                           .max_position = 128000,
                                           .tied_head = false,
                                           .head_dim = 128,
                                           .interleaved_sections = true,
                                           .sections = {24, 20, 20}};

DecoderNames text_names() {
  DecoderNames names = DecoderNames::under("model.language_model.");
  names.experts.stacked = true;
  return names;
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
  TRY(PatchTowerSettings tower, parse_qwen3_tower(checkpoint.config, {8, 16, 24}));
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
                          std::move(tower), kQwen3Media, text_names());
}

Result<UnloadedModel> create(const Checkpoint& checkpoint) { return create_of(checkpoint, false); }
Result<UnloadedModel> create_moe(const Checkpoint& checkpoint) {
  return create_of(checkpoint, true);
}

// --- what checkpoints call themselves ---

}  // namespace
}  // namespace qwen3_vl

extern const Family kQwen3Vl;
const Family kQwen3Vl = {.name = "qwen3-vl",
                         .architectures = {"Qwen3VLForConditionalGeneration"},
                         .model_types = {"qwen3_vl"},
                         .create = qwen3_vl::create};

extern const Family kQwen3VlMoe;
const Family kQwen3VlMoe = {.name = "qwen3-vl-moe",
                            .architectures = {"Qwen3VLMoeForConditionalGeneration"},
                            .model_types = {"qwen3_vl_moe"},
                            .create = qwen3_vl::create_moe};

}  // namespace saccade
