// Schemas put together: references, allOf, and what stands beside anyOf.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/budget.h"

namespace saccade::grammar {

// Keywords that say nothing about what is valid.
bool only_describes(std::string_view keyword);

// The schema that a reference within the document means: "#" or "#/a/b". kUnsupported: another
// document or an anchor; kInvalid: nothing is there.
Result<const json::value*> resolve_pointer(const json::value& root, std::string_view reference);

// One schema for what is valid under both. kUnsupported names a keyword of both that cannot be
// joined. References within them must have been resolved. Charged by what is compared and copied;
// kTooLarge: that is more than the budget has.
Result<json::value> merge_schemas(const json::value& a, const json::value& b, Budget& budget);

// Whether it is certain that no value is valid under both. Charged by what is compared; false once
// the budget is spent.
bool exclude_each_other(const json::value& root, const json::value& a, const json::value& b,
                        Budget& budget);

// Values within `from`, itself included.
std::size_t count_values(const json::value& from);

}  // namespace saccade::grammar
