// What a request asks its answer to be held to, in the terms of the API, and the grammar of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/schema/json_schema.h"

namespace saccade::grammar {

struct GrammarSpec {
  enum class Kind : std::uint8_t {
    kJsonObject,          // any JSON object; `text` unused
    kJsonSchema,          // `text`: the schema as JSON
    kRegex,               // `text`: the expression, of the whole answer
    kChoice,              // one of `choices`
    kEbnf,                // `text`: rules, from `root`
    kStructuralTag,       // `text`: {"structures": [{"begin", "schema", "end"}], "triggers": [...]}
    kRequiredStructures,  // `text`: as required_structures.h has it
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
  JsonOptions json;

  // Equal specs, and no others, have equal digests.
  Digest digest() const;
};

// Errors: those of the frontend; a JSON text that cannot be read is kInvalid.
Result<Grammar> parse_spec(const GrammarSpec& spec);

}  // namespace saccade::grammar
