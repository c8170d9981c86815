// What well-behaved clients ask, and what each of them is to be answered.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"

namespace saccade::soak {

struct Question {
  std::string path;
  std::string members;  // of the body's JSON object, without "stream"
  std::string answer;   // the solo run's, as gist_of() gives it; empty: not asked yet

  std::string body(bool streamed) const;
  // The same with pictures of other bytes: nobody has seen them before, and their pixels are equal.
  std::string unseen_body(bool streamed, Rng& rng) const;
};

// Chats and completions about text, the pictures of data/glimpse and photographs: as data, as files
// and from `image_host` ("http://host:port"); greedy and with seeds, some with log probabilities,
// several choices or prompts. `source_dir`: the repository, as an absolute path.
Result<std::vector<Question>> question_pool(const std::string& source_dir,
                                            const std::string& image_host);

// Greedy chats about text and pictures as data alone, each of the latter with room for what makes
// it an unseen one.
Result<std::vector<Question>> unseen_pool(const std::string& source_dir);

// What must not depend on what else the server does: of each choice text, end and log
// probabilities. The same for an answer and for its stream. Fails where the answer is not whole.
Result<std::string> gist_of(std::string_view body, bool streamed);

// The text of a stream's first choice as far as it has come.
std::string text_so_far(std::string_view events);

}  // namespace saccade::soak
