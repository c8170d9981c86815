// Structures and nothing else: one at least, each with JSON inside as its schema says. What a
// structural tag is without the free text.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/schema/json_schema.h"

namespace saccade::grammar {

// {"begin": "[", "structures": [{"begin": "<f>", "schema": {...}, "end": "</f>"}, ...],
//  "separator": ", ", "end": "]", "most": 128}: up to `most` structures. kInvalid and kUnsupported
// name the structure by its `begin`.
Result<Grammar> required_structures_grammar(const json::value& wanted,
                                            const JsonOptions& options = {});

}  // namespace saccade::grammar
