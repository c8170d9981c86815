// The Qwen3.5 language part of several families: gated delta nets, and every fourth layer gated
// attention.
#pragma once

#include "model/checkpoint/decoder_config.h"

namespace saccade {

// The decoder of a Qwen3.5 configuration, flat or in text_config. Errors name the field.
Result<DecoderConfig> parse_qwen3_5(const json::object& config);

// Its tensors below "model." or, of a model with images, "model.language_model.".
DecoderNames qwen3_5_names(std::string_view prefix);

}  // namespace saccade
