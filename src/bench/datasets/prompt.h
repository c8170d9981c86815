// What one request asks, before it becomes bytes. Datasets make prompts; request_body.h encodes
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/log/run_log.h"
#include "net/client/http_client.h"

namespace saccade::bench {

// An image as it is sent: shared by every request that sends it, never encoded twice. Either
// base64 or url is set.
struct EncodedImage {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::string media_type;   // "image/jpeg"
  net::SharedBytes base64;  // of the encoded bytes
  std::string url;          // "https://...", "file:///..."
  std::uint64_t bytes = 0;  // encoded, before base64
  std::string sha256;       // hex, of the encoded bytes; of the URL when only that is known
};
using SharedImage = std::shared_ptr<const EncodedImage>;

// A piece of a message: text, or an image when `image` is set.
struct ContentPart {
  std::string text = {};
  SharedImage image = nullptr;
};

struct ChatMessage {
  std::string role = "user";
  std::vector<ContentPart> parts;
};

// One turn of a conversation; most conversations have one.
struct Prompt {
  std::vector<ChatMessage> messages;         // for completions: the text parts of all, joined
  std::vector<std::int32_t> token_ids;       // pre-tokenised: sent instead of text to completions
  std::int32_t max_tokens = kUnknownTokens;  // kUnknownTokens: the server's own limit
  std::string row_id;
  std::string label;      // class in a mixed run
  std::string reference;  // answer of the dataset, when it has one
  std::int32_t text_tokens = kUnknownTokens;
  std::int32_t predicted_image_tokens = kUnknownTokens;
  // Multi-turn: prompts with one number form a conversation, asked in order; `messages` then holds
  // this turn's own message and the history is put before it when the turn is due.
  std::int32_t conversation = -1;
};

}  // namespace saccade::bench
