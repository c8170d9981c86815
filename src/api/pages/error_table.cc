#include "api/pages/error_table.h"

#include "base/json.h"

namespace saccade::api {

ErrorKind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return {400, "BadRequestError"};
    case ErrorCode::kNotFound:
      return {404, "NotFoundError"};
    case ErrorCode::kDenied:
      return {400, "BadRequestError"};  // media that the operator's settings forbid
    case ErrorCode::kUnsupported:
      return {400, "BadRequestError"};
    case ErrorCode::kTooLarge:
      return {413, "RequestEntityTooLargeError"};
    case ErrorCode::kUndecodable:
      return {422, "UnprocessableEntityError"};
    case ErrorCode::kExhausted:
      return {429, "TooManyRequestsError", true};
    case ErrorCode::kUnavailable:
      return {503, "ServiceUnavailableError", true};
    case ErrorCode::kCancelled:
      return {499, "ClientClosedRequestError"};
    case ErrorCode::kTimeout:
      return {422, "UnprocessableEntityError"};  // of media that the client named
    case ErrorCode::kCorrupt:
    case ErrorCode::kInternal:
      break;
  }
  return {500, "InternalServerError"};
}

namespace {

std::string body_of(int status, std::string_view type, std::string_view message,
                    std::string_view param) {
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  w.key("error");
  w.begin_object();
  w.member("message", message);
  w.member("type", type);
  w.key("param");
  if (param.empty()) {
    w.null();
  } else {
    w.value(param);
  }
  w.member("code", status);
  w.end_object();
  w.end_object();
  return out;
}

std::string_view messages_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string messages_body(int status, std::string_view message) {
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  w.member("type", "error");
  w.key("error");
  w.begin_object();
  w.member("type", messages_type(status));
  w.member("message", message);
  w.end_object();
  w.end_object();
  return out;
}

}  // namespace

std::string error_body(const Error& error, ErrorShape shape) {
  const ErrorKind kind = kind_of(error.code);
  return shape == ErrorShape::kMessages
             ? messages_body(kind.status, error.message)
             : body_of(kind.status, kind.type, error.message, error.param);
}

std::string error_body(int status, std::string_view type, std::string_view message,
                       ErrorShape shape) {
  return shape == ErrorShape::kMessages ? messages_body(status, message)
                                        : body_of(status, type, message, {});
}

std::string error_body(int status, std::string_view message) {
  return error_body(status,
                    status == 413   ? "RequestEntityTooLargeError"
                    : status == 503 ? "ServiceUnavailableError"
                    : status >= 500 ? "InternalServerError"
                                    : "BadRequestError",
                    message);
}

}  // namespace saccade::api
