// What an answer to /v1/completions says of its prompts: their ids, their text, what they score.
#pragma once

#include <cstddef>
#include <optional>

#include "api/requests/completion_request.h"
#include "base/result.h"
#include "serve/requests/answer.h"
#include "serve/requests/request_builder.h"
#include "text/tokenizer.h"

namespace saccade::serve {

// One thread. Bounds are on all prompts together, and each choice says all of it. `asked` outlives
// it.
class ToldPrompts {
 public:
  // `logprobs`: of each prompt token, where they are asked for.
  ToldPrompts(const api::CompletionRequest& asked, std::size_t choices, std::optional<int> logprobs)
      : asked_(asked), choices_(choices), logprobs_(logprobs) {}

  // The next one. kTooLarge: it goes over a bound.
  Result<void> tell(const api::CompletionPrompt& prompt, const BuiltPrompt& built,
                    const Tokenizer& tokenizer, Answer& answer);

 private:
  const api::CompletionRequest& asked_;
  const std::size_t choices_;
  const std::optional<int> logprobs_;
  std::size_t scored_ = 0;  // tokens
  std::size_t shown_ = 0;   // tokens
  std::size_t echoed_ = 0;  // bytes
};

}  // namespace saccade::serve
