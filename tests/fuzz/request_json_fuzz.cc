// Any bytes as the body of every request kind: a struct or an error, never more.
#include <cstdint>
#include <string_view>

#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/tokenize_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  if (const auto chat = saccade::api::parse_chat_request(body)) {
    const auto keep = [](std::string_view text) { return std::string(text); };
    (void)saccade::api::template_messages(*chat, keep);
  }
  (void)saccade::api::parse_completion_request(body);
  (void)saccade::api::parse_tokenize_request(body);
  (void)saccade::api::parse_detokenize_request(body);
  return 0;
}
