// A model of images at nearly their own size: patches, a patch tower, and a decoder whose positions
// have three axes (M-RoPE). Qwen2-VL and what came after differ in their configurations.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/towers/patch_tower.h"
#include "model/towers/vision_tower.h"
#include "model/videos/patch_videos.h"

namespace saccade {

// How a prompt has a video.
enum class VideoText : std::uint8_t {
  kOnePlaceholder,  // all its groups of frames in a row
  kTimesBefore,     // each group an image of its own after the mean time of its frames, "<0.5
                    // seconds>"
  kTimesAfter,      // each group an image inside of it, then the whole seconds of its first frame
};

// What the prompts of a family have for images and videos. Placeholders are one token each.
struct MediaWords {
  std::string_view image = "<|vision_start|><|image_pad|><|vision_end|>";
  std::string_view video = "<|vision_start|><|video_pad|><|vision_end|>";
  std::array<std::string_view, 2> placeholders = {"<|image_pad|>", "<|video_pad|>"};
  // With kTimesAfter: a video's start, its end, and one of its groups, whose tokens are an image's.
  std::string_view video_start = {};
  std::string_view video_end = {};
  std::string_view group = {};
  TokenId image_token = 151655;  // where config.json does not say
  TokenId video_token = 151656;
};

struct PatchMedia {
  BoundsOf image_bounds_of = BoundsOf::kFrame;
  PixelBounds image_bounds = {56 * 56, 28 * 28 * 1280};
  VideoDefaults videos = {};
  VideoText video_text = VideoText::kOnePlaceholder;
  // Positions on the time axis; 0: a group of frames takes one, whatever its time.
  std::int64_t tokens_per_second = 0;
  MediaWords words = {};
};

// What a tower says of its patches.
struct PatchExtents {
  std::int64_t patch = 14;
  std::int64_t merge = 2;
  std::int64_t frames = 2;
};
struct MadeTower {
  std::unique_ptr<VisionTower> tower;
  PatchExtents extents;
};

// `tower` is made from the checkpoint; `decoder` likewise, with the family's own settings applied.
// Reads image_token_id and video_token_id. kInvalid when files disagree about patches.
Result<UnloadedModel> make_patch_model(std::string_view family, const Checkpoint& checkpoint,
                                       DecoderConfig decoder, MadeTower tower,
                                       const PatchMedia& media, DecoderNames names = {});
// The same with a PatchTower of checked settings.
Result<UnloadedModel> make_patch_model(std::string_view family, const Checkpoint& checkpoint,
                                       DecoderConfig decoder, PatchTowerSettings tower,
                                       const PatchMedia& media, DecoderNames names = {});

}  // namespace saccade
