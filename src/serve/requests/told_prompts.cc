#include "serve/requests/told_prompts.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/pages/limits.h"

namespace saccade::serve {

Result<void> ToldPrompts::tell(const api::CompletionPrompt& prompt, const BuiltPrompt& built,
                               const Tokenizer& tokenizer, Answer& answer) {
  const std::vector<TokenId>& ids = built.prompt.ids;
  if (logprobs_) {
    scored_ += choices_ * ids.size();
    TRY_DO(api::check_prompt_logprobs(1, scored_, *logprobs_));
  }
  if (asked_.delivery.return_token_ids) {
    shown_ += choices_ * ids.size();
    TRY_DO(api::within(api::limits::kPromptIds, shown_));
    answer.show_next({std::make_shared<const std::vector<TokenId>>(ids), {}});
  }
  if (asked_.echo) {
    std::string text = prompt.is_tokens ? tokenizer.decode(ids, true) : built.text;
    echoed_ += choices_ * text.size();
    TRY_DO(api::within(api::limits::kEcho, echoed_));
    answer.echo_next({std::move(text), ids.front()});
  }
  return {};
}

}  // namespace saccade::serve
