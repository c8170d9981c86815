// Python pickles of plain data: lists, tuples, integers and strings. Anything else - a class, a
// call, a dict, a float - is refused by name; nothing in a pickle is ever executed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade::bench {

// Values refer to each other by index: a pickle may share them, and may even make a list that holds
// itself. Whoever walks the tree bounds depth and size.
struct PickleValue {
  enum class Kind { kInt, kString, kList, kTuple };
  Kind kind = Kind::kInt;
  std::int64_t number = 0;
  std::string text;
  std::vector<std::uint32_t> items;  // Pickle::values
};

struct Pickle {
  std::vector<PickleValue> values;
  std::uint32_t root = 0;

  bool is_sequence(std::uint32_t index) const {
    const auto kind = values[index].kind;
    return kind == PickleValue::Kind::kList || kind == PickleValue::Kind::kTuple;
  }
};

// Protocols 0 to 5. kUnsupported names what was refused and the byte; kInvalid a pickle that is
// broken. Memory is linear in the bytes.
Result<Pickle> parse_pickle(std::string_view bytes);

// The rows of a pickle of prompts: a sequence whose rows are sequences of token ids (0 to 2^31), or
// sequences that hold exactly one such sequence beside numbers and strings.
Result<std::vector<std::vector<std::int32_t>>> token_rows(const Pickle& pickle);

}  // namespace saccade::bench
