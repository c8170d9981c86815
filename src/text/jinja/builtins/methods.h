// Methods of str, list, tuple, dict and the rest that a template can call.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/state.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

struct Method {
  std::string_view name;
  Result<Value> (*call)(RenderState& state, const Value& self, Arguments& arguments);
};

// Null: the kind has no such method.
const Method* find_method(const Value& self, std::string_view name);
// list.append, dict.update and the like: there, and refused by the immutable sandbox.
bool is_mutator(const Value& self, std::string_view name);

// `"x".upper` as a value of its own.
struct BoundMethod : Callable {
  BoundMethod(Value receiver, const Method* which) : self(std::move(receiver)), method(which) {}
  Result<Value> call(RenderState& state, Arguments& arguments) override {
    return method->call(state, self, arguments);
  }
  std::string repr() const override;
  Value self;
  const Method* method;
};

}  // namespace saccade::jinja
