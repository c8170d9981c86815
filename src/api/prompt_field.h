// The four forms of a prompt: a text, texts, token ids, lists of token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

// One prompt: text, or token ids when `is_tokens`.
struct CompletionPrompt {
  bool is_tokens = false;
  std::string text;
  std::vector<std::int64_t> tokens;
};

// The value of member `name`, null when it is absent; `most` prompts at most. kInvalid names it.
Result<std::vector<CompletionPrompt>> read_prompts(const json::value* value, std::string_view name,
                                                   std::size_t most);

}  // namespace saccade::api
