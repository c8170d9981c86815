// The Mistral language part of several families (arXiv:2310.06825).
#pragma once

#include "model/checkpoint/decoder_config.h"

namespace saccade {

// The decoder of a Mistral configuration, flat or in text_config. Every layer sees sliding_window
// tokens: 4,096 where the file has no such field, all of them where it is null. The head is tied as
// the section itself says.
Result<DecoderConfig> parse_mistral(const json::object& config);

}  // namespace saccade
