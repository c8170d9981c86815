#include "api/requests/completion_request.h"

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {
Result<CompletionRequest> parse_completion_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  TRY_DO(fields.settle(RequestKind::kCompletion));
  CompletionRequest request;
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY(request.prompts, read_prompts(fields.take("prompt"), limits::kPrompts));
  TRY(request.sampling, take_sampling(fields, 0));
  TRY(request.delivery, take_delivery(fields));
  TRY(request.logprobs, fields.integer("logprobs", 0));
  TRY_DO(take_logprob_tokens(fields, request.logprobs.has_value(), request.sampling));
  TRY(const auto echo, fields.boolean("echo"));
  request.echo = echo.value_or(false);
  if (request.prompt_alone() && !request.echo)
    return invalid("max_tokens", "'max_tokens' is 0 and 'echo' is not true: nothing is asked for");
  TRY_DO(take_prompt_logprobs(fields, request.delivery.stream, request.sampling));
  TRY(const auto add_special, fields.boolean("add_special_tokens"));
  request.add_special_tokens = add_special.value_or(true);
  TRY(const auto best_of,
      fields.integer("best_of", 1, static_cast<std::int64_t>(limits::kChoices.most)));
  request.best_of = best_of.value_or(request.sampling.n);
  if (request.best_of < request.sampling.n)
    return invalid("best_of", "'best_of' is {}, 'n' is {}: it must not be smaller", request.best_of,
                   request.sampling.n);
  if (request.best_of > request.sampling.n && request.delivery.stream)
    return invalid("best_of",
                   "'best_of' is {}, 'n' is {}, and the answer is streamed: which choices are the "
                   "best is known at their end",
                   request.best_of, request.sampling.n);
  TRY_DO(take_beam_search(fields, request.sampling));
  if (request.sampling.beam_search && request.prompt_logprobs())
    return invalid("echo",
                   "'echo' with 'logprobs' is not supported together with "
                   "'use_beam_search'");
  TRY_DO(take_reasoning_form(fields, request.delivery));
  request.unknown = fields.unknown();
  return request;
}

}  // namespace saccade::api
