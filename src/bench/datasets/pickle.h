// Python pickles of prompts: plain lists, tuples, integers and strings, or a pandas DataFrame as
// to_pickle() writes it. Anything else - another class, a call, a dict - is refused by name.
// Nothing in a pickle is ever executed: a DataFrame is read as the tree of data that it is made of.
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
  enum class Kind {
    kInt,
    kString,
    kList,
    kTuple,
    kNone,
    kBool,
    kFloat,
    kBytes,
    kDict,
    kClass,
    kObject
  };
  Kind kind = Kind::kInt;
  std::int64_t number = 0;  // of kInt and kBool
  std::string text;         // of kString and kBytes; kClass: "module.name"
  // Pickle::values. A dict's: key, value, key, ... An object's: its class (or the function that
  // would make it), a tuple of arguments, then its state where it has one.
  std::vector<std::uint32_t> items;
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
// broken. Memory is linear in the bytes. Kinds beyond lists, tuples, integers and strings are only
// there below a DataFrame, whose classes are all pandas' and numpy's.
Result<Pickle> parse_pickle(std::string_view bytes);

using TokenRows = std::vector<std::vector<std::int32_t>>;

// The rows of a pickle of prompts: a sequence whose rows are sequences of token ids (0 to 2^31), or
// sequences that hold exactly one such sequence beside numbers and strings; or a DataFrame's column
// of lists or integer arrays.
Result<TokenRows> token_rows(const Pickle& pickle, std::string_view column = "tok_inputs");

// Of a DataFrame's pickle (pandas 1.3 on): its column. kNotFound says which there are.
bool is_data_frame(const Pickle& pickle);
Result<TokenRows> frame_token_rows(const Pickle& pickle, std::string_view column);

}  // namespace saccade::bench
