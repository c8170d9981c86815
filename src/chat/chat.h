// `saccade chat`: a conversation with a server on a terminal, or line by line from a pipe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace saccade::chat {

struct ChatSettings {
  std::string base_url = "http://127.0.0.1:8000";  // may end in /v1
  std::string model;                               // empty: the server's first
  std::string api_key;                             // empty: none is sent
  std::string system;
  std::vector<std::string> images;                          // of the first question: files or URLs
  std::vector<std::pair<std::string, std::string>> fields;  // of every request: temperature, 0
  bool previews = true;
  bool verify_tls = true;
  std::string ca_file;
};

// "http://host:8000", "host:8000" or "localhost" is where; anything else is the model's name.
bool names_server(std::string_view given);

// Until the input ends. Errors: the server is not reached, an image cannot be read. The result is
// false when the input was no terminal and an answer failed.
Result<bool> run_chat(const ChatSettings& settings);

}  // namespace saccade::chat
