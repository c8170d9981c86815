// The text of HTTP responses. Internal to net/.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/server/http_server.h"

namespace saccade::net {

std::string_view reason_phrase(int status);
bool may_have_body(int status);  // not 1xx, 204, 304

// Status line and headers, with the blank line. Line breaks inside header values become blanks: no
// value can start a header of its own.
void append_response_head(std::string& out, const HttpResponse& response, bool keep_alive,
                          bool http_1_0);
void append_stream_head(std::string& out,
                        const std::vector<std::pair<std::string, std::string>>& headers,
                        bool keep_alive, bool http_1_0);
// chunked: its body comes in chunks; otherwise with its length, or to the connection's end.
void append_answer_head(std::string& out, const AnswerHead& head, bool chunked, bool keep_alive,
                        bool http_1_0);
void append_chunk(std::string& out, std::string_view data);  // data: not empty

std::string default_error_body(int status, std::string_view message);

}  // namespace saccade::net
