// The tests of the template language (`x is odd`) by name.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

struct Test {
  std::string_view name;
  int parameters;  // besides the value
  Result<bool> (*holds)(RenderState& state, const Value& value, const Value* argument);
};

// Null: there is no such test.
const Test* find_test(std::string_view name);
// Checks the number of arguments first.
Result<bool> run_test(RenderState& state, const Test& test, const Value& value,
                      const Arguments& arguments);

}  // namespace saccade::jinja
