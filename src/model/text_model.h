// A model that is a decoder and nothing else: what every text-only family is.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/blocks/text_decoder.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"

namespace saccade {

// `decoder` is parsed from the checkpoint and has the family's own settings applied.
Result<UnloadedModel> make_text_model(std::string_view family, const Checkpoint& checkpoint,
                                      DecoderConfig decoder, DecoderNames names);

}  // namespace saccade
