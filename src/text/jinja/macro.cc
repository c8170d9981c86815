#include "text/jinja/macro.h"

#include <algorithm>

namespace saccade::jinja {
namespace {

std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
  const auto it = std::find_if(arguments.named.begin(), arguments.named.end(),
                               [&](const auto& entry) { return entry.first == name; });
  if (it == arguments.named.end()) return std::nullopt;
  Value value = std::move(it->second);
  arguments.named.erase(it);
  return value;
}

}  // namespace

Result<void> MacroValue::bind(RenderState& state, Arguments& arguments, Activation& inside) {
  const auto& parameters = definition_.parameters;
  bool found_caller = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& slot = inside.slots[static_cast<std::size_t>(parameters[i].slot)];
    if (i < arguments.positional.size()) {
      slot = arguments.positional[i];
    } else {
      slot = take_named(arguments, parameters[i].name);
    }
    found_caller |= parameters[i].name == "caller";
  }
  return bind_rest(state, arguments, inside, found_caller);
}

// caller, kwargs and varargs: there when the body mentions them.
Result<void> MacroValue::bind_rest(RenderState& state, Arguments& arguments, Activation& inside,
                                   bool found_caller) {
  const auto place = [&](int slot) -> std::optional<Value>& {
    return inside.slots[static_cast<std::size_t>(slot)];
  };
  if (definition_.caller_slot >= 0 && !found_caller) {
    auto caller = take_named(arguments, "caller");
    place(definition_.caller_slot) =
        caller ? *std::move(caller)
               : Value::undefined({Absence::Reason::kHint, "No caller defined", {}});
  }
  if (definition_.kwargs_slot >= 0) {
    Dict* rest = state.make<Dict>();
    for (auto& [name, value] : arguments.named) {
      TRY_DO(rest->set(state, state.string(name), value));
    }
    place(definition_.kwargs_slot) = Value::object(rest);
  } else if (!arguments.named.empty()) {
    return fail(ErrorCode::kInvalid, "macro '{}' takes no keyword argument '{}'", definition_.name,
                arguments.named[0].first);
  }
  const std::size_t taken = std::min(arguments.positional.size(), definition_.parameters.size());
  if (definition_.varargs_slot >= 0) {
    place(definition_.varargs_slot) =
        state.tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                     arguments.positional.end()});
  } else if (arguments.positional.size() > taken) {
    return fail(ErrorCode::kInvalid, "macro '{}' takes not more than {} argument(s)",
                definition_.name, definition_.parameters.size());
  }
  return {};
}

Result<void> MacroValue::fill_defaults(Activation& inside) {
  for (const Parameter& parameter : definition_.parameters) {
    const auto slot = static_cast<std::size_t>(parameter.slot);
    if (inside.slots[slot]) continue;
    if (parameter.fallback) {
      TRY(inside.slots[slot], interpreter_.evaluate(*parameter.fallback, inside));
    } else {
      inside.slots[slot] =
          Value::undefined({Absence::Reason::kHint,
                            fmt::format("parameter '{}' was not provided", parameter.name),
                            {}});
    }
  }
  return {};
}

Result<Value> MacroValue::call(RenderState& state, Arguments& arguments) {
  Activation* inside = interpreter_.activate(&around_, definition_.slots);
  interpreter_.enter(definition_.scope, *inside);
  TRY_DO(bind(state, arguments, *inside));
  TRY_DO(fill_defaults(*inside));
  std::string text;
  TRY_DO(interpreter_.body(definition_.body, *inside, text));
  interpreter_.retire(inside);
  return state.string(std::move(text));
}

std::string MacroValue::repr() const { return fmt::format("<Macro '{}'>", definition_.name); }

Result<std::optional<Value>> MacroValue::attribute(RenderState& state, std::string_view name) {
  if (name == "name") return state.string(definition_.name);
  if (name == "catch_kwargs") return Value::boolean(definition_.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(definition_.varargs_slot >= 0);
  if (name == "caller") return Value::boolean(definition_.caller_slot >= 0);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const auto& parameter : definition_.parameters)
    names.push_back(state.string(parameter.name));
  return state.tuple(std::move(names));
}

}  // namespace saccade::jinja
