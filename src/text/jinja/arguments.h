// Arguments of built-in functions, filters and methods, bound to parameters as Python binds them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

// The arguments by parameter; those not given are null. Lives no longer than the Arguments.
class Bound {
 public:
  // `names` in order; an empty name cannot be given by keyword. The first `required` must be given.
  // kInvalid in Python's words otherwise.
  static Result<Bound> bind(std::string_view function, const Arguments& arguments,
                            std::initializer_list<std::string_view> names, std::size_t required);

  const Value* operator[](std::size_t i) const { return values_[i]; }
  bool given(std::size_t i) const { return values_[i] != nullptr; }
  // Given, and not None.
  bool says(std::size_t i) const { return given(i) && !values_[i]->is_none(); }
  bool flag(std::size_t i, bool fallback) const { return given(i) ? truth(*values_[i]) : fallback; }
  Value value(std::size_t i, Value fallback) const { return given(i) ? *values_[i] : fallback; }
  // kInvalid when given and not an int (a string).
  Result<std::int64_t> integer(std::size_t i, std::int64_t fallback) const;
  Result<std::string_view> text(std::size_t i, std::string_view fallback = {}) const;

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

// An int that fits, for counts and widths: values beyond +-2^40 are cut to that.
std::int64_t clamped(Integer number);

}  // namespace saccade::jinja
