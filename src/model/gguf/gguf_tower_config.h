// The vision part of config.json and the preprocessor's configuration, of a projector's metadata
// (clip.vision.*). Where a file is silent the values are those of the published checkpoints.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "model/gguf/gguf_model.h"

namespace saccade {

// GgufFamily::add_tower.
Result<void> add_qwen2_tower(const GgufModel& model, json::object& config,
                             json::object& preprocessor);
Result<void> add_qwen25_tower(const GgufModel& model, json::object& config,
                              json::object& preprocessor);
Result<void> add_qwen3_tower(const GgufModel& model, json::object& config,
                             json::object& preprocessor);
Result<void> add_gemma_tower(const GgufModel& model, json::object& config,
                             json::object& preprocessor);
Result<void> add_smolvlm_tower(const GgufModel& model, json::object& config,
                               json::object& preprocessor);
Result<void> add_pixtral_tower(const GgufModel& model, json::object& config,
                               json::object& preprocessor);
Result<void> add_onevision_tower(const GgufModel& model, json::object& config,
                                 json::object& preprocessor);
Result<void> add_minicpmv_tower(const GgufModel& model, json::object& config,
                                json::object& preprocessor);
Result<void> add_intern_tower(const GgufModel& model, json::object& config,
                              json::object& preprocessor);

}  // namespace saccade
