// Cuts text into the pieces that a token model sees: words, numbers, runs of blanks.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace saccade {

// A text and how it is cut so far. Views are never empty and point into the caller's text or into
// `made`. One thread.
struct Pieces {
  std::vector<std::string_view> views;
  std::deque<std::string> made;  // text that a step had to write
  bool begins_text = true;       // the first view starts where the whole input does
};

// Immutable; any thread.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(Pieces& pieces) const = 0;
  // Whether all of a text is in its pieces: nothing, such as blanks, is left out.
  virtual bool keeps_all() const { return false; }
};

struct PreTokenizerOptions {
  // A ByteLevel at the end cuts, and leaves bytes as they are: for a model that takes bytes.
  bool keep_bytes = false;
};

// The `pre_tokenizer` member of a tokenizer.json. kUnsupported names the type or option that is not
// done, kInvalid what is malformed.
Result<std::unique_ptr<PreTokenizer>> parse_pre_tokenizer(const json::value& from,
                                                          const PreTokenizerOptions& options);

// Whether what reaches the model has been through ByteLevel, as the last step.
bool ends_in_byte_level(const json::value* pre_tokenizer);

}  // namespace saccade
