#include "api/requests/tokenize_request.h"

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {

Result<TokenizeRequest> parse_tokenize_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  TokenizeRequest request;
  TRY_DO(fields.settle(RequestKind::kTokenize));
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY(const auto strings, fields.boolean("return_token_strs"));
  request.return_token_strs = strings.value_or(false);
  const json::object& members = tree.get_object();
  for (const std::string_view name : {"prompt", "content"}) {
    const json::value* given = json::find(members, name);
    const json::value* messages = json::find(members, "messages");
    if (given != nullptr && !given->is_null() && messages != nullptr && !messages->is_null())
      return invalid(name, "'{}' and 'messages' are both given, one may be", name);
  }
  if (fields.take("messages") != nullptr) {
    TRY(request.chat, parse_chat_request(body));
    return request;
  }
  TRY(request.prompt, fields.text("prompt"));
  // llama-server's names, and its default.
  TRY(auto content, fields.text("content"));
  TRY(const auto special, fields.boolean("add_special"));
  TRY(const auto parsed, fields.boolean("parse_special"));
  request.parse_special_tokens = parsed.value_or(true);
  if (!request.prompt && content) {
    request.prompt = std::move(content);
    request.add_special_tokens = special.value_or(false);
    request.unknown = fields.unknown();
    return request;
  }
  if (!request.prompt) return invalid("prompt", "either 'prompt' or 'messages' is required");
  TRY(const auto add_special, fields.boolean("add_special_tokens"));
  request.add_special_tokens = add_special.value_or(true);
  request.unknown = fields.unknown();
  return request;
}

Result<DetokenizeRequest> parse_detokenize_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  DetokenizeRequest request;
  TRY_DO(fields.settle(RequestKind::kDetokenize));
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY(const json::array* tokens, fields.array("tokens"));
  if (tokens == nullptr)
    return invalid("tokens", "'tokens' is missing, an array of integers is required");
  TRY_DO(within(limits::kTokenIds, tokens->size(), "tokens"));
  for (const auto& item : *tokens) {
    if (!item.is_int64())
      return invalid("tokens", "'tokens' holds {}, integers are required", json::kind_name(item));
    request.tokens.push_back(item.get_int64());
  }
  request.unknown = fields.unknown();
  return request;
}

}  // namespace saccade::api
