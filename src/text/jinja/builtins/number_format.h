// Digits of numbers as Python's formatting lays them out.
#pragma once

#include <string>

#include "base/result.h"
#include "text/jinja/value.h"

namespace saccade::jinja {

constexpr int kMaxPrecision = 400;  // digits after the point that a template may ask for

// Without sign. `type` is one of d b o x X; `alternate` adds 0x and the like.
std::string integer_digits(Integer magnitude, char type, bool alternate);

// Without sign. `type` is one of e E f F g G, or 0: the shortest digits that read back the same,
// or, given a precision, g that keeps a digit after the point. precision < 0: the type's default.
std::string float_digits(double magnitude, char type, int precision, bool alternate);

// Separators every three digits (four for b o x X) of the leading digits of `digits`.
std::string group_digits(const std::string& digits, char separator, int group);

}  // namespace saccade::jinja
