// Messages of /v1/messages to chat's: blocks of texts, images, calls of tools, their results,
// thoughts.
#pragma once

#include <string_view>

#include "api/requests/conversation.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

// `system`: a text or blocks of text, before everything else.
Result<void> read_system(const json::value& system, Conversation& into);

// `where`: "messages[3]". Neighbours of one role become one message; results of tools are messages
// of their own. kInvalid says which block, and what of it.
Result<void> read_turn(const json::value& message, std::string_view where, Conversation& into);

}  // namespace saccade::api
