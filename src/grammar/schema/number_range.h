// Numbers between bounds, as grammar expressions over their decimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "grammar/grammar.h"

namespace saccade::grammar {

// Integers from `min` to `max`, both included; absent: no bound. kInvalid: none are.
Result<NodeId> integer_range(Grammar& grammar, std::optional<std::int64_t> min,
                             std::optional<std::int64_t> max);

// A bound as it was written: [-]whole.fraction, digits only.
struct Decimal {
  bool negative = false;
  std::string whole;     // without leading zeros; empty: 0
  std::string fraction;  // without trailing zeros
  bool is_zero() const { return whole.empty() && fraction.empty(); }
};

struct Bound {
  Decimal at;
  bool excluded = false;
};

// The shortest text that reads back as `value`, taken apart. kUnsupported: not finite, or over 40
// digits on either side of the point.
Result<Decimal> decimal_of(double value);

// Numbers without an exponent within the bounds, with any number of decimals.
Result<NodeId> number_range(Grammar& grammar, const std::optional<Bound>& min,
                            const std::optional<Bound>& max);

}  // namespace saccade::grammar
