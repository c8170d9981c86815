// Writing response heads and chunks.
#include "net/server/response_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

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

constexpr std::pair<int, std::string_view> kReasons[] = {{200, "OK"},
                                                         {201, "Created"},
                                                         {202, "Accepted"},
                                                         {204, "No Content"},
                                                         {206, "Partial Content"},
                                                         {301, "Moved Permanently"},
                                                         {302, "Found"},
                                                         {303, "See Other"},
                                                         {304, "Not Modified"},
                                                         {307, "Temporary Redirect"},
                                                         {308, "Permanent Redirect"},
                                                         {400, "Bad Request"},
                                                         {401, "Unauthorized"},
                                                         {403, "Forbidden"},
                                                         {404, "Not Found"},
                                                         {405, "Method Not Allowed"},
                                                         {406, "Not Acceptable"},
                                                         {408, "Request Timeout"},
                                                         {409, "Conflict"},
                                                         {410, "Gone"},
                                                         {411, "Length Required"},
                                                         {413, "Content Too Large"},
                                                         {414, "URI Too Long"},
                                                         {415, "Unsupported Media Type"},
                                                         {416, "Range Not Satisfiable"},
                                                         {422, "Unprocessable Content"},
                                                         {429, "Too Many Requests"},
                                                         {431, "Request Header Fields Too Large"},
                                                         {499, "Client Closed Request"},
                                                         {500, "Internal Server Error"},
                                                         {501, "Not Implemented"},
                                                         {502, "Bad Gateway"},
                                                         {503, "Service Unavailable"},
                                                         {504, "Gateway Timeout"}};

}  // namespace

std::string_view reason_phrase(int status) {
  const auto* const found =
      std::ranges::find(kReasons, status, &std::pair<int, std::string_view>::first);
  return found == std::end(kReasons) ? "Status" : found->second;
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
