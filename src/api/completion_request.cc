#include "api/completion_request.h"

#include "api/fields.h"

namespace saccade::api {
namespace {

constexpr std::size_t kMaxPrompts = 1'024;
constexpr std::size_t kMaxPromptTokens = 4'194'304;

Result<CompletionPrompt> read_ids(const json::array& from) {
  if (from.size() > kMaxPromptTokens) {
    return invalid("prompt", "a prompt has {} token ids, the limit is {}", from.size(),
                   kMaxPromptTokens);
  }
  CompletionPrompt prompt;
  prompt.is_tokens = true;
  for (const auto& item : from) {
    if (!item.is_int64())
      return invalid("prompt", "a prompt of token ids holds {}", json::kind_name(item));
    prompt.tokens.push_back(item.get_int64());
  }
  return prompt;
}

// "text", ["text", ...], [1, 2, ...] or [[1, 2], ...]
Result<std::vector<CompletionPrompt>> read_prompts(const json::value* v) {
  std::vector<CompletionPrompt> prompts;
  if (v == nullptr) return invalid("prompt", "'prompt' is missing");
  if (v->is_string()) {
    prompts.push_back({false, std::string(v->get_string()), {}});
    return prompts;
  }
  if (!v->is_array()) {
    return invalid("prompt", "'prompt' is {}, a string or an array is required",
                   json::kind_name(*v));
  }
  const auto& list = v->get_array();
  if (list.empty()) return invalid("prompt", "'prompt' is an empty array");
  if (list.front().is_int64()) {
    TRY(CompletionPrompt prompt, read_ids(list));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  if (list.size() > kMaxPrompts) {
    return invalid("prompt", "'prompt' has {} entries, the limit is {}", list.size(), kMaxPrompts);
  }
  for (const auto& item : list) {
    if (item.is_string() && list.front().is_string()) {
      prompts.push_back({false, std::string(item.get_string()), {}});
    } else if (item.is_array() && list.front().is_array()) {
      TRY(CompletionPrompt prompt, read_ids(item.get_array()));
      prompts.push_back(std::move(prompt));
    } else {
      return invalid("prompt", "'prompt' mixes {} with {}", json::kind_name(list.front()),
                     json::kind_name(item));
    }
  }
  return prompts;
}

}  // namespace

Result<CompletionRequest> parse_completion_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  CompletionRequest request;
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY(request.prompts, read_prompts(fields.take("prompt")));
  TRY(request.sampling, take_sampling(fields));
  TRY(request.delivery, take_delivery(fields));
  TRY(request.logprobs, fields.integer("logprobs", 0));
  TRY(const auto echo, fields.boolean("echo"));
  request.echo = echo.value_or(false);
  if (request.echo && request.logprobs) {
    return invalid(
        "echo",
        "'echo' together with 'logprobs' needs log-probabilities of the prompt, which this server "
        "does not give");
  }
  TRY(const auto add_special, fields.boolean("add_special_tokens"));
  request.add_special_tokens = add_special.value_or(true);
  TRY_DO(fields.refuse({"suffix"}));
  TRY_DO(refuse_unsupported(fields));
  request.unknown = fields.unknown();
  return request;
}

}  // namespace saccade::api
