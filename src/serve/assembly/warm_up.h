// What a server's engine is warmed up with: made-up prompts and a picture of noise.
#pragma once

#include "engine/engine.h"
#include "model/model.h"

namespace saccade::serve {

// `tower`: images are encoded here. Reads model and tokenizer when it is asked for requests.
WarmUp warm_up_of(const Model& model, const Tokenizer& tokenizer, bool tower);

}  // namespace saccade::serve
