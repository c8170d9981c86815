// POST /v1/chat/completions as a plain struct.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/requests/fields/sampling_fields.h"
#include "api/requests/fields/tool_fields.h"
#include "api/requests/fields/video_part.h"
#include "base/json.h"
#include "base/result.h"

namespace saccade::api {

enum class ImageDetail { kAuto, kLow, kHigh };

// One image of a conversation, in order of appearance over all messages.
struct ImagePart {
  std::string url;  // data:, http(s):, file:; empty: what its uuid stands for
  ImageDetail detail = ImageDetail::kAuto;
  std::optional<std::int64_t> min_pixels;
  std::optional<std::int64_t> max_pixels;
  std::string uuid;  // under which its client finds it again; may be empty
};

struct ContentPart {
  enum class Kind { kText, kImage, kVideo } kind = Kind::kText;
  std::string text;       // kText
  std::size_t index = 0;  // kImage, kVideo: into ChatRequest::images or ::videos
};

struct Message {
  std::string role;                  // system, developer, user, assistant, tool
  bool has_parts = false;            // content was a list; false: a string (or null)
  std::vector<ContentPart> content;  // a string is one text part; empty for null
  std::string text() const;          // all of it, without images and videos
  json::object other;  // name, tool_calls, tool_call_id, reasoning_content, ...: for the template
};

struct ChatRequest {
  std::string model;  // empty when absent
  std::vector<Message> messages;
  std::vector<ImagePart> images;
  std::vector<VideoPart> videos;
  SamplingFields sampling;
  DeliveryFields delivery;
  bool logprobs = false;
  std::int64_t top_logprobs = 0;
  bool echo = false;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;
  std::optional<std::string> chat_template;
  json::object chat_template_kwargs;
  std::optional<json::array> documents;
  ToolFields tools;
  json::object mm_processor_kwargs;  // also top-level min_pixels/max_pixels; without fps
  std::vector<std::string> unknown;  // member names nobody knows: one warning

  // The answer begins with the last message: echo is set, and the answer is its author's.
  bool echoes() const;
};

// kInvalid names the member (Error::param). Known members that would change the answer and are not
// there (audio, prediction, logits_processors, ...) are kInvalid naming it.
Result<ChatRequest> parse_chat_request(std::string_view body);

// What other APIs' requests share with chat's.
// An image part: its URL under image_url or image, bare or in an object. Errors name `param` and
// say `where`.
Result<ImagePart> read_image(const json::object& part, std::string_view param,
                             std::string_view where);
// add_generation_prompt, chat_template, chat_template_kwargs, documents, mm_processor_kwargs, ...
Result<void> take_template_fields(Fields& fields, ChatRequest& request);
// Of chat_template_kwargs, whoever gave them: nothing that the conversation is made of, which they
// would replace. kInvalid names `param` and the member.
Result<void> check_template_kwargs(const json::object& kwargs, std::string_view param);
// How hard to think, under the names that templates have for it: reasoning_effort, and whether it
// is any at all, enable_thinking where chat_template_kwargs does not say. `param` is the member's.
Result<void> show_effort(std::string_view effort, std::string_view param, ChatRequest& request);

// What the chat template sees as `messages`. Text that a client wrote, in parts, calls of tools and
// other members, passes through `guard` (Processor::guard_literals); content given as a string
// stays a string, parts stay parts ({"type": "text"...}, {"type": "image"}, {"type": "video"}).
template <typename Guard>
json::array template_messages(const ChatRequest& request, const Guard& guard);

using GuardText = std::string (*)(void* context, std::string_view text);
json::array template_messages(const ChatRequest& request, GuardText guard, void* context);
// And as `tools`: members in their order. Empty where there are none.
json::array template_tools(const ChatRequest& request, GuardText guard, void* context);

// A callable as GuardText and its context.
template <typename Guard>
std::string call_guard(void* context, std::string_view text) {
  return (*static_cast<const Guard*>(context))(text);
}
template <typename Guard>
void* guard_context(const Guard& guard) {
  return const_cast<void*>(static_cast<const void*>(&guard));
}

template <typename Guard>
json::array template_messages(const ChatRequest& request, const Guard& guard) {
  return template_messages(request, call_guard<Guard>, guard_context(guard));
}
template <typename Guard>
json::array template_tools(const ChatRequest& request, const Guard& guard) {
  return template_tools(request, call_guard<Guard>, guard_context(guard));
}

}  // namespace saccade::api
