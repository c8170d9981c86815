// POST /detokenize, the same for every model that has a tokenizer.
#pragma once

#include <string>

#include "base/result.h"
#include "serve/router.h"
#include "text/tokenizer.h"

namespace saccade::serve {

// The answer's body.
Result<std::string> detokenized(const std::string& body, const Tokenizer& tokenizer,
                                Router& router);

}  // namespace saccade::serve
