// Strings as a schema restricts them: pattern, format, minLength and maxLength.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/schema/json_values.h"

namespace saccade::grammar {

inline constexpr std::array<std::string_view, 4> kStringKeywords = {"pattern", "format",
                                                                    "minLength", "maxLength"};

// A JSON string with its quotes. Errors name `path`.
Result<NodeId> schema_string(Grammar& grammar, JsonValues& values, const json::object& keywords,
                             const std::string& path);

// A count such as minItems; nothing where it is not given.
Result<std::optional<std::uint32_t>> schema_count(const json::object& keywords,
                                                  std::string_view name, const std::string& path);

}  // namespace saccade::grammar
