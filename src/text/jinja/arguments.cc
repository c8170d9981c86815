#include "text/jinja/arguments.h"

#include <algorithm>

namespace saccade::jinja {

std::int64_t clamped(Integer number) {
  constexpr Integer kBound = Integer{1} << 40;
  return static_cast<std::int64_t>(std::clamp<Integer>(number, -kBound, kBound));
}

Result<Bound> Bound::bind(std::string_view function, const Arguments& arguments,
                          std::initializer_list<std::string_view> names, std::size_t required) {
  Bound bound;
  bound.function_ = function;
  bound.values_.resize(names.size(), nullptr);
  if (arguments.positional.size() > names.size()) {
    return fail(ErrorCode::kInvalid, "{}() takes at most {} arguments ({} given)", function,
                names.size(), arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto* it = name.empty() ? names.end() : std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      return fail(ErrorCode::kInvalid, "{}() got an unexpected keyword argument '{}'", function,
                  name);
    }
    const Value*& slot = bound.values_[static_cast<std::size_t>(it - names.begin())];
    if (slot != nullptr) {
      return fail(ErrorCode::kInvalid, "{}() got multiple values for argument '{}'", function,
                  name);
    }
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (bound.values_[i] == nullptr) {
      return fail(ErrorCode::kInvalid, "{}() takes at least {} arguments ({} given)", function,
                  required, arguments.positional.size() + arguments.named.size());
    }
  }
  return bound;
}

Result<std::int64_t> Bound::integer(std::size_t i, std::int64_t fallback) const {
  if (!given(i)) return fallback;
  if (values_[i]->is_undefined()) return undefined_error(*values_[i]);
  if (!values_[i]->is_integral()) {
    return fail(ErrorCode::kInvalid, "{}(): '{}' object cannot be interpreted as an integer",
                function_, type_name(*values_[i]));
  }
  return clamped(values_[i]->as_integer());
}

Result<std::string_view> Bound::text(std::size_t i, std::string_view fallback) const {
  if (!given(i)) return fallback;
  if (!values_[i]->is_string()) {
    return fail(ErrorCode::kInvalid, "{}() argument {} must be str, not {}", function_, i + 1,
                type_name(*values_[i]));
  }
  return values_[i]->view();
}

}  // namespace saccade::jinja
