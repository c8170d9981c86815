// The model that --speculative-config names: loaded beside the one that is served, for the same
// tokens.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/drafting/speculation.h"
#include "model/families.h"
#include "model/model.h"
#include "ops/device.h"
#include "text/tokenizer.h"

namespace saccade::serve {

// What the served model is to it.
struct ServedTokens {
  std::string directory;  // whose tokenizer it is
  const Tokenizer* tokenizer = nullptr;
  std::int64_t vocab = 0;  // rows of its logits
};

// `options`: those of the served model, but for how its matrices are rounded, which settings.
// quantization says; activations become bytes with int4 alone. A tower is not loaded. kInvalid,
// naming both folders and the first token that differs: the tokenizers are not the same. Rows of
// logits may be more than tokens, and differ.
Result<Model> load_draft(const DraftSettings& settings, const ServedTokens& served,
                         LoadOptions options, Device& device);

// As load_draft() checks it. `draft`: null where its folder has no tokenizer, and then the rows
// have to be as many.
Result<void> check_same_tokens(const ServedTokens& served, const std::string& directory,
                               const Tokenizer* draft, std::int64_t vocab);

}  // namespace saccade::serve
