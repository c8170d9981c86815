// POST /v1/chat/completions/batch, vLLM's: several conversations in one body.
#pragma once

#include <string_view>
#include <vector>

#include "api/requests/chat_request.h"
#include "base/byte_budget.h"
#include "base/result.h"

namespace saccade::api {

// A chat's body whose `messages` is a list of conversations: each as if it had come by itself with
// the other members. Refused by name: what one answer has no place for (streams, `n` above 1,
// beams, echoes, tokens and log-probabilities of prompts). All of them, written out, may be 64 MiB;
// `reserved`, of the body, grows by what that is more than the body. kUnavailable: it cannot.
Result<std::vector<ChatRequest>> parse_chat_batch(std::string_view body,
                                                  ByteReservation* reserved = nullptr);

}  // namespace saccade::api
