// The vision tower that Qwen3-VL and Qwen3.5 share, and how their prompts have videos.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/patch_model.h"
#include "model/towers/patch_tower.h"

namespace saccade {

// Bounds of videos are of all frames together, those of images are not.
inline const PatchMedia kQwen3Media = {.videos = kVolumeVideos,
                                       .video_text = VideoText::kTimesBefore};

// vision_config. `deepstack`: of deepstack_visual_indexes, where the file is silent. Errors name
// the field.
Result<PatchTowerSettings> parse_qwen3_tower(const json::object& config,
                                             std::vector<std::int64_t> deepstack);

}  // namespace saccade
