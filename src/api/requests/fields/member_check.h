// member_table() held against one request.
#pragma once

#include <string>
#include <vector>

#include "api/requests/fields/field_table.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

// false, 0, "", "none", [] and {} ask for nothing, null neither.
bool asks_for_something(const json::value& v);

// kInvalid naming, by its path, the first member that is refused and asks for something. Else those
// that nobody knows, as "tools[].nonsense", each once and 64 at most.
Result<std::vector<std::string>> check_members(RequestKind kind, const json::object& request);

}  // namespace saccade::api
