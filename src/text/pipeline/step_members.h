// What the steps of a tokenizer.json have in common: members that several kinds of them read.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/patterns/regex.h"

namespace saccade {

// kInvalid, naming the member.
Result<std::string> one_character(const json::object& from, std::string_view name);
Result<const json::array*> steps_of(const json::object& sequence, std::string_view name);

// `pattern`: {"Regex": "..."} or {"String": "..."}.
struct PatternMember {
  Regex regex;
  std::size_t literal_bytes = 0;  // of a string; 0: a regular expression
};
Result<PatternMember> pattern_of(const json::object& from);

}  // namespace saccade
