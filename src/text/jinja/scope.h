// Gives every name of a parsed template its slot, as the reference's compiler does: what a loop or
// a macro assigns stays inside it, what it reads it finds outside, and an assignment in an `if`
// counts for the scope around.
#pragma once

#include "base/result.h"
#include "text/jinja/syntax/ast.h"

namespace saccade::jinja {

// Fills every Place, ScopeEntry, slot count, filter and test of `program`. kInvalid names the
// filter or test that does not exist and its line (inside an `if` that is an error only when it
// runs), and a loop that assigns to `loop`.
Result<void> resolve(Program& program);

}  // namespace saccade::jinja
