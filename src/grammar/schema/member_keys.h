// Keys of members that a schema does not name.
#pragma once

#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/schema/json_values.h"

namespace saccade::grammar {

// A JSON string whose value is none of `names` (not empty). Escapes by number are left out as long
// as what has been written is the beginning of a name. Linear in the names.
NodeId other_member_key(Grammar& grammar, JsonValues& values,
                        const std::vector<std::string>& names);

}  // namespace saccade::grammar
