// The grammar of an answer that has to call tools.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "tools/formats.h"

namespace saccade::tools {

// As required_structures_grammar (grammar/frontends/required_structures.h) takes it: calls in
// `format` of those `tools` that are named `name` (empty: of any), up to `most`; their parser reads
// every such text as calls and nothing else. kUnsupported for a format whose arguments are no JSON.
Result<std::string> required_calls(const ToolCallFormat& format, const json::array& tools,
                                   std::string_view name, int most);

}  // namespace saccade::tools
