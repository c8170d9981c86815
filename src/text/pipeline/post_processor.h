// What goes around an encoded text: bos, eos, [CLS], [SEP].
#pragma once

#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace saccade {

// Immutable; any thread.
class PostProcessor {
 public:
  // The `post_processor` member of a tokenizer.json. kUnsupported names the type that is not done.
  static Result<PostProcessor> parse(const json::value& from);

  // Puts `ids` through the templates; without special tokens these only repeat or drop the text.
  void apply(std::vector<TokenId>& ids, bool add_special_tokens) const;

 private:
  struct Part {
    bool is_text = false;
    std::vector<TokenId> special;  // when it is not the text
  };
  using Template = std::vector<Part>;
  static Result<Template> parse_template(const json::object& from);
  static Result<Template> parse_pair_ends(const json::object& from);

  std::vector<Template> templates_;  // one after another
};

}  // namespace saccade
