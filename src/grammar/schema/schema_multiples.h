// Multiples of a number, as grammar expressions over their decimal digits.
#pragma once

#include <optional>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/schema/number_range.h"

namespace saccade::grammar {

struct Multiples {
  Decimal of;             // above 0
  bool integers = false;  // those alone that are whole
  std::optional<Bound> min;
  std::optional<Bound> max;
};

// Numbers without an exponent. With bounds other than a least one of 0 they are listed, so that
// there must be two, and at most 1,024 multiples between them. kUnsupported where there are more,
// or where `of` has over 9 decimals or is over 1,000 of its last; kInvalid: there are none.
Result<NodeId> multiples(Grammar& grammar, const Multiples& which);

}  // namespace saccade::grammar
