// The four forms of a prompt: a text, texts, token ids, lists of token ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

// The most that `truncate_prompt_tokens` and `dimensions` may say.
inline constexpr std::int64_t kMaxPooledTokens = 4'194'304;

// One prompt: text, or token ids when `is_tokens`.
struct CompletionPrompt {
  bool is_tokens = false;
  std::string text;
  std::vector<std::int64_t> tokens;
};

struct Limit;

// The value of the member that `most` names, null when it is absent. kInvalid names it.
Result<std::vector<CompletionPrompt>> read_prompts(const json::value* value, const Limit& most);

}  // namespace saccade::api
