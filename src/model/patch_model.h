// A model of images at nearly their own size: patches, a patch tower, and a decoder whose positions
// have three axes (M-RoPE). Qwen2-VL and what came after differ in their configurations.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/decoder_config.h"
#include "model/family.h"
#include "model/patch_tower.h"

namespace saccade {

// How a prompt says when the groups of a video's frames are.
struct VideoTime {
  std::int64_t tokens_per_second = 0;  // positions; 0: a group takes one, whatever its time
  // Each group is an image after its time as text, "<0.5 seconds>", and bounds on pixels are of all
  // frames together.
  bool written = false;
};

// `tower` is parsed from the checkpoint; `decoder` likewise, with the family's own settings
// applied. Reads image_token_id and video_token_id. kInvalid when files disagree about patches.
// Without `time` the model takes images alone.
Result<UnloadedModel> make_patch_model(std::string_view family, const Checkpoint& checkpoint,
                                       DecoderConfig decoder, PatchTowerSettings tower,
                                       const std::optional<VideoTime>& time = {},
                                       DecoderNames names = {});

}  // namespace saccade
