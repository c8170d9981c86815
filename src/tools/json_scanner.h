// One JSON value, byte by byte: strict, without building it.
#pragma once

#include <string>
#include <string_view>

namespace saccade::tools {

// Where a machine that is fed byte by byte stands.
enum class Step {
  kMore,        // the byte was taken
  kDone,        // taken, and it was the last
  kDoneBefore,  // not taken: what came before was complete
  kBad,         // not taken: it cannot stand here
};

// White space of JSON.
inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

class JsonScanner {
 public:
  explicit JsonScanner(int max_depth) : max_depth_(max_depth) {}

  // kDoneBefore only for a number, which ends with what follows it. Deeper nesting is kBad.
  Step put(char byte);

 private:
  enum class At {
    kValue,
    kFirstElement,  // a value or ]
    kFirstKey,      // a key or }
    kKey,
    kColon,
    kAfterValue,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  Step put_value(char byte);
  Step put_string(char byte);
  Step put_number(char byte);
  Step after_value(char byte);
  Step open(char bracket);
  Step value_complete();

  int max_depth_;
  std::string open_;  // '{' and '[' that are open, outermost first
  At at_ = At::kValue;
  bool in_key_ = false;
  int hex_digits_ = 0;
  std::string_view literal_;  // what is still to come of true, false or null
};

}  // namespace saccade::tools
