// POST /v1/responses: translated to a chat request, beside what only this API has.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/requests/chat_request.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

// Items as JSON text, an array: what a request sent or an answer said. Kept as text, so that its
// bytes are what it costs.
using ItemText = std::shared_ptr<const std::string>;

struct ResponseRequest {
  std::string model;
  // Its messages are complete after add_conversation().
  ChatRequest chat;
  ItemText input;  // items; a text is one message of the user
  std::optional<std::string> instructions;
  std::optional<std::string> previous_response_id;
  bool store = true;
  // Said again in the answer, as given; null: absent.
  json::value metadata;
  json::value tools;
  json::value tool_choice;
  json::value text_format;
  json::value reasoning;
  json::value user;
};

// kInvalid names the member. Known members that would change the answer and are not there are
// kInvalid with what to do instead, if there is something.
Result<ResponseRequest> parse_response_request(std::string_view body);

// The messages: instructions, the items of the conversation so far, oldest first, and the input.
Result<void> add_conversation(ResponseRequest& request, const std::vector<ItemText>& history);

}  // namespace saccade::api
