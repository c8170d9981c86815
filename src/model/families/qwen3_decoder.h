// The Qwen3 language part of several families (arXiv:2505.09388).
#pragma once

#include "model/checkpoint/decoder_config.h"

namespace saccade {

// The decoder of a Qwen3 configuration, flat or in text_config: heads of 128 where it does not say,
// queries and keys normed head by head.
Result<DecoderConfig> parse_qwen3(const json::object& config);

// The same with experts. kUnsupported for windows: its class has them in all layers or none, and no
// published checkpoint has them.
Result<DecoderConfig> parse_qwen3_moe(const json::object& config);

}  // namespace saccade
