// Free text with structures in it: once a trigger has been written, a structure that begins with it
// must follow, with JSON inside as its schema says.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/schema/json_schema.h"

namespace saccade::grammar {

// {"structures": [{"begin": "<f>", "schema": {...}, "end": "</f>"}, ...], "triggers": ["<f"]}: each
// `begin` starts with a trigger. kInvalid and kUnsupported name the member.
Result<Grammar> structural_tag_grammar(const json::value& tags, const JsonOptions& options = {});

}  // namespace saccade::grammar
