// Rewrites text before it is cut: Unicode normal forms, replacements, lower case.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace saccade {

// Immutable; any thread.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` must be valid UTF-8, and so is what it becomes.
  virtual void apply(std::string& text) const = 0;
};

// The `normalizer` member of a tokenizer.json. kUnsupported names the type that is not done,
// kInvalid what is malformed.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const json::value& from);

}  // namespace saccade
