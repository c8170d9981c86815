// A macro as a value, bound to the variables around its definition.
#pragma once

#include "text/jinja/interpreter.h"

namespace saccade::jinja {

class MacroValue final : public Callable {
 public:
  MacroValue(Interpreter& interpreter, const MacroDefinition& definition, Activation& around)
      : interpreter_(interpreter), definition_(definition), around_(around) {}
  Result<Value> call(RenderState& state, Arguments& arguments) override;
  std::string repr() const override;
  Result<std::optional<Value>> attribute(RenderState& state, std::string_view name) override;

 private:
  Result<void> bind(RenderState& state, Arguments& arguments, Activation& inside);
  Result<void> bind_rest(RenderState& state, Arguments& arguments, Activation& inside,
                         bool found_caller);
  Result<void> fill_defaults(Activation& inside);

  Interpreter& interpreter_;
  const MacroDefinition& definition_;
  Activation& around_;
};

}  // namespace saccade::jinja
