// Writing response heads and chunks.
#include "net/response_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"

namespace saccade::net {
namespace {

void append_header(std::string& out, std::string_view name, std::string_view value) {
  const std::size_t begin = out.size();
  out += name;
  out += ": ";
  out += value;
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
      [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  out += "\r\n";
}

void append_connection(std::string& out, bool keep_alive, bool http_1_0) {
  if (!keep_alive) {
    out += "Connection: close\r\n";
  } else if (http_1_0) {
    out += "Connection: keep-alive\r\n";
  }
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

bool may_have_body(int status) { return status >= 200 && status != 204 && status != 304; }

void append_response_head(std::string& out, const HttpResponse& response, bool keep_alive,
                          bool http_1_0) {
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", response.status,
                 reason_phrase(response.status));
  if (may_have_body(response.status)) {
    if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", response.body.size());
  }
  for (const auto& [name, value] : response.headers) append_header(out, name, value);
  append_connection(out, keep_alive, http_1_0);
  out += "\r\n";
}

void append_stream_head(std::string& out,
                        const std::vector<std::pair<std::string, std::string>>& headers,
                        bool keep_alive, bool http_1_0) {
  out +=
      "HTTP/1.1 200 OK\r\n"
      "Content-Type: text/event-stream; charset=utf-8\r\n"
      "Cache-Control: no-cache\r\n";
  if (!http_1_0) out += "Transfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : headers) append_header(out, name, value);
  append_connection(out, keep_alive, http_1_0);
  out += "\r\n";
}

void append_answer_head(std::string& out, const AnswerHead& head, bool chunked, bool keep_alive,
                        bool http_1_0) {
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", head.status,
                 reason_phrase(head.status));
  for (const auto& [name, value] : head.headers) append_header(out, name, value);
  if (may_have_body(head.status)) {
    if (chunked) out += "Transfer-Encoding: chunked\r\n";
    if (head.length)
      fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", *head.length);
  }
  append_connection(out, keep_alive, http_1_0);
  out += "\r\n";
}

void append_chunk(std::string& out, std::string_view data) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", data.size());
  out += data;
  out += "\r\n";
}

std::string default_error_body(int status, std::string_view message) {
  std::string body;
  json::JsonWriter writer(body);
  writer.begin_object();
  writer.key("error");
  writer.begin_object();
  writer.member("message", message);
  writer.member("code", status);
  writer.end_object();
  writer.end_object();
  return body;
}

}  // namespace saccade::net
