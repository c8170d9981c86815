// POST /v1/messages and /v1/messages/count_tokens: Anthropic's Messages API, translated to a chat
// request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/requests/chat_request.h"
#include "base/result.h"

namespace saccade::api {

// Messages that end with the assistant's are continued (continue_final_message). kInvalid names the
// member in its message, which is all that these clients show. Known members that would change the
// answer and are not there are kInvalid with what to do instead, if there is something.
Result<ChatRequest> parse_messages_request(std::string_view body);

// The same without what only an answer needs: max_tokens may be absent.
Result<ChatRequest> parse_count_tokens_request(std::string_view body);

// {"input_tokens": ...}; `object`, where not empty, before it.
std::string token_count_response(std::int64_t tokens, std::string_view object = {});

}  // namespace saccade::api
