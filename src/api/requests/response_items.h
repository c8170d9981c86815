// Items of /v1/responses to messages: texts, images, calls of functions, their outputs, thoughts.
#pragma once

#include <string_view>

#include "api/requests/conversation.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

// `where`: "input[3]". kInvalid names the item's member, or the type that is not known.
Result<void> read_item(const json::value& item, std::string_view where, Conversation& into);

}  // namespace saccade::api
