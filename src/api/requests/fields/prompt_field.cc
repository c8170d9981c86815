#include "api/requests/fields/prompt_field.h"

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {
namespace {

// `total`: token ids of all prompts so far.
Result<CompletionPrompt> read_ids(const json::array& from, std::string_view name,
                                  std::size_t& total) {
  total += from.size();
  TRY_DO(within(limits::kTokenIds, total, name));
  CompletionPrompt prompt;
  prompt.is_tokens = true;
  for (const auto& item : from) {
    if (!item.is_int64())
      return invalid(name, "'{}' of token ids holds {}", name, json::kind_name(item));
    prompt.tokens.push_back(item.get_int64());
  }
  return prompt;
}

}  // namespace

// "text", ["text", ...], [1, 2, ...] or [[1, 2], ...]
Result<std::vector<CompletionPrompt>> read_prompts(const json::value* v, const Limit& most) {
  const std::string_view name = most.field;
  std::size_t total = 0;
  std::vector<CompletionPrompt> prompts;
  if (v == nullptr) return invalid(name, "'{}' is missing", name);
  if (v->is_string()) {
    prompts.push_back({false, std::string(v->get_string()), {}});
    return prompts;
  }
  if (!v->is_array()) {
    return invalid(name, "'{}' is {}, a string or an array is required", name, json::kind_name(*v));
  }
  const auto& list = v->get_array();
  if (list.empty()) return invalid(name, "'{}' is an empty array", name);
  if (list.front().is_int64()) {
    TRY(CompletionPrompt prompt, read_ids(list, name, total));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  TRY_DO(within(most, list.size()));
  for (const auto& item : list) {
    if (item.is_string() && list.front().is_string()) {
      prompts.push_back({false, std::string(item.get_string()), {}});
    } else if (item.is_array() && list.front().is_array()) {
      TRY(CompletionPrompt prompt, read_ids(item.get_array(), name, total));
      prompts.push_back(std::move(prompt));
    } else {
      return invalid(name, "'{}' mixes {} with {}", name, json::kind_name(list.front()),
                     json::kind_name(item));
    }
  }
  return prompts;
}

}  // namespace saccade::api
