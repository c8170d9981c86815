// The one place that knows HTTP statuses: ErrorCode to status and OpenAI error type, as vLLM
// answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::api {

struct ErrorKind {
  int status;             // 400, 401, 404, 413, 422, 429, 500, 503, ...
  std::string_view type;  // "BadRequestError", "NotFoundError", ...
  bool retry = false;     // Retry-After goes with it
};

ErrorKind kind_of(ErrorCode code);

// Whose clients read an error.
enum class ErrorShape : std::uint8_t {
  kOpenAi,    // {"error": {"message", "type", "param", "code"}}; code is the HTTP status, as vLLM
              // has it
  kMessages,  // /v1/messages: {"type": "error", "error": {"type", "message"}}
};

std::string error_body(const Error& error, ErrorShape shape = ErrorShape::kOpenAi);
std::string error_body(int status, std::string_view type, std::string_view message,
                       ErrorShape shape = ErrorShape::kOpenAi);
// Of what HTTP itself refuses, before it is a request: the type follows from the status.
std::string error_body(int status, std::string_view message);

}  // namespace saccade::api
