// What a request asks the form of its answer to be: OpenAI's response_format, vLLM's
// structured_outputs and its older guided_* members.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace saccade::api {

class Fields;

struct StructuredOutput {
  enum class Kind : std::uint8_t {
    kJsonObject,     // any JSON object; `text` unused
    kJsonSchema,     // `text`: the schema as JSON
    kRegex,          // `text`: the expression, of the whole answer
    kChoice,         // one of `choices`
    kGrammar,        // `text`: EBNF, from `root`
    kStructuralTag,  // `text`: JSON, {"structures": [{"begin", "schema", "end"}], "triggers":
                     // [...]}
    kDemandedCalls,  // `text`: as grammar/frontends/required_structures.h has it; by tool_choice
                     // alone
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
  // Between the tokens of JSON: what the server does by default, some, as many as the model likes,
  // or none but for one after ',' and ':'.
  enum class Blanks : std::uint8_t { kDefault, kBounded, kAny, kNone } blanks = Blanks::kDefault;
  std::string param;  // the request's member that asks, for errors
};

// Absent: free text. kInvalid names the member: of a wrong type, or a second one that asks.
Result<std::optional<StructuredOutput>> take_structured_output(Fields& fields);

}  // namespace saccade::api
