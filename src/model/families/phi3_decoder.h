// The Phi-3 language part of several families (arXiv:2404.14219): fused weights and LongRoPE.
#pragma once

#include <string>

#include "model/checkpoint/decoder_config.h"

namespace saccade {

// The decoder of a Phi-3 configuration, flat or in text_config. kUnsupported for a rotary part of a
// head and for a window shorter than the context: no published vision model has them.
Result<DecoderConfig> parse_phi3(const json::object& config);

// Its tensors: qkv_proj holds queries, keys and values, gate_up_proj the gate and then up. `prefix`
// comes before "model.layers" and "lm_head".
DecoderNames phi3_names(const std::string& prefix = {});

}  // namespace saccade
