// Rewrites text before it is cut: Unicode normal forms, replacements, lower case.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace saccade {

// Immutable; any thread.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` must be valid UTF-8, and so is what it becomes. Returns whether characters at its front
  // were removed: such a text does not begin the input any more (Metaspace asks).
  virtual bool apply(std::string& text) const = 0;
  // How many times longer a text may become by replacements, at most.
  virtual double growth() const { return 1; }
  // How many times shorter, in bytes, at most; 0: any number of times, as where characters are
  // dropped.
  virtual double shrink() const { return 0; }
};

// The `normalizer` member of a tokenizer.json. kUnsupported names the type that is not done,
// kInvalid what is malformed. kTooLarge: replacements that would make short texts endless.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const json::value& from);

}  // namespace saccade
