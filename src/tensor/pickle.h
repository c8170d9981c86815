// Python pickles, in which PyTorch and NumPy keep tensors, as the trees of data that they are made
// of. Nothing in one is ever executed: a class is its name, a call is the function's name beside
// its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace saccade {

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
    kObject,
    kPersistent  // a value that is kept outside the pickle
  };
  Kind kind = Kind::kInt;
  std::int64_t number = 0;  // of kInt and kBool
  std::string text;         // of kString and kBytes; kClass: "module.name"
  // Pickle::values. A dict's: key, value, key, ... An object's: its class (or the function that
  // would make it), a tuple of arguments, then its state where it has one. A persistent's: its id.
  std::vector<std::uint32_t> items;
};

struct Pickle {
  std::vector<PickleValue> values;
  std::uint32_t root = 0;
  // What of it is more than lists, tuples, integers and strings: the first such thing, and its
  // byte. Empty: nothing.
  std::string beyond_plain;
  std::size_t beyond_plain_at = 0;

  bool is_sequence(std::uint32_t index) const {
    const auto kind = values[index].kind;
    return kind == PickleValue::Kind::kList || kind == PickleValue::Kind::kTuple;
  }
};

// What a kind of pickle may hold.
struct PickleRules {
  bool (*knows_class)(std::string_view name) = nullptr;  // "module.name"; others are refused
  bool persistent_ids = false;
  std::string_view readable;  // for messages: "only ... are read"
};

// Protocols 0 to 5. kUnsupported names what was refused and the byte; kInvalid a pickle that is
// broken. Memory is linear in the bytes.
Result<Pickle> parse_pickle(std::string_view bytes, const PickleRules& rules);
tl::unexpected<Error> refuse_in_pickle(const PickleRules& rules, std::string_view what,
                                       std::size_t at);

}  // namespace saccade
