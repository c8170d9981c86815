// Methods of str.
#pragma once

#include <span>

#include "text/jinja/builtins/methods.h"

namespace saccade::jinja {

std::span<const Method> text_methods();

}  // namespace saccade::jinja
