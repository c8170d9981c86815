// One answer of a server, told piece by piece as it comes.
#pragma once

#include <functional>
#include <string>

#include "bench/load/request_body.h"
#include "bench/load/server/server_probe.h"
#include "bench/load/stream_event.h"

namespace saccade::chat {

struct AnswerPiece {
  std::string_view text;
  bool is_thought = false;
};

struct AnswerEnd {
  std::string text;  // without thoughts
  bench::UsageCounts usage;
  Nanos first_token = 0;  // after the request was sent; 0: none came
  Nanos duration = 0;
  bool stopped = false;  // by the user
  std::string error;     // as the server wrote it; empty: none
};

// Sends one request and gives its pieces to `told` (on the client's thread) until it ends, or until
// SIGINT comes, which is then taken here: it has to be blocked in every thread. Blocking.
AnswerEnd stream_answer(net::HttpClient& client, const bench::ServerTarget& target,
                        const bench::BodyPieces& body,
                        const std::function<void(const AnswerPiece&)>& told);

// What an answer that is no 200 says: the message of {"error": {...}}, else its first bytes.
std::string refusal_of(int status, std::string_view body);

// "58 tokens in (32 of images), 6 out, first token after 48 ms, 238 tokens/s"; what is not known
// is left out.
std::string facts_of(const AnswerEnd& end);

}  // namespace saccade::chat
