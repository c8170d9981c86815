// Numbers as a schema bounds them: minimum, maximum, their exclusive forms, and multipleOf.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/schema/json_values.h"

namespace saccade::grammar {

inline constexpr std::array<std::string_view, 5> kNumberKeywords = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};

// `type`: "integer" or "number". With bounds, numbers are written without an exponent. Errors name
// `path`.
Result<NodeId> schema_number(Grammar& grammar, JsonValues& values, const json::object& keywords,
                             std::string_view type, const std::string& path);

}  // namespace saccade::grammar
