// Python's three ways to format: "%d" % x, "{:>5}".format(x) and format(x, ">5").
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

// format % arguments. Markup escapes what it takes in.
Result<Value> percent_format(RenderState& state, const Text& format, const Value& arguments);

// format.format(...): replacement fields with attributes, items, conversions and nested widths.
Result<Value> brace_format(RenderState& state, const Text& format, const Arguments& arguments);

// format(value, spec): the format specification mini-language.
Result<std::string> format_value(RenderState& state, const Value& value, std::string_view spec);

}  // namespace saccade::jinja
