// JSON Schema as a grammar of the JSON texts that are valid under it.
//
// Members come in the order of `properties`, then others where `additionalProperties` lets them.
// Where the schema does not say, strict (the default) lets no other members and no items after
// prefixItems. Keywords that only describe (title, default, examples, ...) are passed over; a
// keyword that restricts and is not listed in docs/structured-output.md is refused by name with its
// path.
#pragma once

#include <cstdint>

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar.h"

namespace saccade::grammar {

enum class Whitespace : std::uint8_t {
  kAny,      // blanks, tabs and line ends anywhere that JSON has them
  kCompact,  // none but one blank after ',' and ':', as Python writes
  kBounded,  // as kAny; of tokens that are nothing else a matcher takes Matcher::kMaxBlanks in a
             // row
};

struct JsonOptions {
  Whitespace whitespace = Whitespace::kAny;
  bool strict = true;
};

// kInvalid: not a schema, or one that nothing can satisfy; kUnsupported: a keyword or a
// combination; both name the path within the schema ("#/properties/a/pattern"). kTooLarge: too many
// expressions.
Result<Grammar> json_schema_grammar(const json::value& schema, const JsonOptions& options = {});

// The same within a grammar that holds more: the expression of the JSON texts.
Result<NodeId> add_json_schema(Grammar& grammar, const json::value& schema,
                               const JsonOptions& options = {});

// Any JSON object.
Grammar json_object_grammar(const JsonOptions& options = {});

}  // namespace saccade::grammar
