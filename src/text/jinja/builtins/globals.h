// Functions that every template finds: range, dict, namespace, cycler, joiner, and what
// transformers adds for chat templates, raise_exception and strftime_now.
#pragma once

#include "text/jinja/interpreter.h"

namespace saccade::jinja {

void add_globals(RenderState& state, Variables& variables);

}  // namespace saccade::jinja
