// Answers of /v1/responses: items, and the events in which they come.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/answers/answer_writer.h"
#include "api/requests/response_request.h"

namespace saccade::api {

struct ResponseForm {
  AnswerHead head;  // "resp_..."
  bool stream = false;
  std::string settings;  // response_settings()
  // Of an answer that has an end: the response's JSON, and its items as a JSON array. May be empty.
  std::function<void(const std::string& response, std::string items)> ended;
};

// What a response says again of its request: members of a JSON object, without its braces.
std::string response_settings(const ResponseRequest& request);

std::unique_ptr<AnswerWriter> response_writer(ResponseForm form);

// DELETE /v1/responses/{id}
std::string deleted_response(const std::string& id);

}  // namespace saccade::api
