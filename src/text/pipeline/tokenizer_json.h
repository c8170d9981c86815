// Builds a tokenizer from the tree of a tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/pipeline/added_tokens.h"
#include "text/tokenizer.h"

namespace saccade {

// `extra`: tokens that other files add to those of this one.
Result<std::unique_ptr<Tokenizer>> build_tokenizer(const json::value& root,
                                                   const std::vector<AddedTokenEntry>& extra);

}  // namespace saccade
