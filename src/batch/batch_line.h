// One line of a batch, as OpenAI's Batch API has them: what it asks, and the line that answers it.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/server/http_server.h"

namespace saccade::batch {

// {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
struct BatchLine {
  std::string custom_id;
  net::HttpRequest request;  // the body as JSON again
};

// Why a line asks nothing; `code` is a word of OpenAI's for programs, such as "invalid_json_line".
struct LineError {
  std::string_view code;
  std::string message;
};

// Lines are read into either. `number` counts from 1 and is what messages name.
tl::expected<BatchLine, LineError> read_line(std::string_view text, std::int64_t number);

// "batch_req_000012" of line 12: the answer's id, and what it is found again by where there is no
// custom_id.
std::string answer_id(std::int64_t number);

// The line of an answer, with its newline. A body that is not JSON stands there as a string.
std::string answer_line(std::int64_t number, std::string_view custom_id,
                        const net::HttpResponse& answer);
// Of a line that was not asked.
std::string error_line(std::int64_t number, const LineError& error);

// Whether a line that was cut off may have been one of these.
bool may_begin_answer(std::string_view text);

// What a line of an output answers.
struct AnsweredKey {
  std::optional<std::string> custom_id;
  std::string id;
  bool is_error = false;  // no 200 was answered
};
// Error: this is no line of an output.
Result<AnsweredKey> read_answer_key(std::string_view text);

}  // namespace saccade::batch
