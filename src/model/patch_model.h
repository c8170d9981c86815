// A model of images at nearly their own size: patches, a patch tower, and a decoder whose positions
// have three axes (M-RoPE). Qwen2-VL and what came after differ in their configurations.
#pragma once

#include <memory>
#include <string_view>

#include "model/image_model.h"
#include "model/patch_tower.h"

namespace saccade {

// `tower` is parsed from the checkpoint; `decoder` likewise, with the family's own settings
// applied. Reads image_token_id and video_token_id. kInvalid when files disagree about patches.
Result<std::unique_ptr<LoadableModel>> make_patch_model(std::string_view family,
                                                        const Checkpoint& checkpoint,
                                                        DecoderConfig decoder,
                                                        PatchTowerSettings tower);

}  // namespace saccade
