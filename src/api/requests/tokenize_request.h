// POST /tokenize and /detokenize as plain structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/requests/chat_request.h"
#include "base/result.h"

namespace saccade::api {

struct TokenizeRequest {
  std::string model;
  std::optional<std::string> prompt;  // either a prompt
  std::optional<ChatRequest>
      chat;  // or messages, with the members of a chat request that shape a prompt
  bool add_special_tokens = true;    // of `prompt`
  bool parse_special_tokens = true;  // of `prompt`: special tokens that stand in it are tokens
  bool return_token_strs = false;
  std::vector<std::string> unknown;  // of `prompt`
};
Result<TokenizeRequest> parse_tokenize_request(std::string_view body);

struct DetokenizeRequest {
  std::string model;
  std::vector<std::int64_t> tokens;
  std::vector<std::string> unknown;
};
Result<DetokenizeRequest> parse_detokenize_request(std::string_view body);

}  // namespace saccade::api
