// The messages of a ChatRequest, gathered from what other APIs send: items of /v1/responses, blocks
// of /v1/messages. Under the same limits as chat's own.
#pragma once

#include <string>
#include <string_view>

#include "api/requests/chat_request.h"
#include "base/result.h"

namespace saccade::api {

class Conversation {
 public:
  // Errors name `param`, the request's member that the messages are in.
  Conversation(ChatRequest& request, std::string_view param) : request_(request), param_(param) {}

  // A message of its own. `parts`: its content is a list, however much of it there is.
  Result<void> begin(std::string_view role, bool parts);
  // The assistant's: goes on with a last message that is the assistant's. A message or a thought
  // that comes after a call is a next message (`fresh`).
  Result<void> assistant(bool fresh);
  // The rest acts on the last message; `where` is for errors.
  Result<void> text(std::string text, std::string_view where);
  Result<void> image(ImagePart image, std::string_view where);
  void reasoning(std::string_view text);
  Result<void> call(std::string_view id, std::string_view name, json::value arguments,
                    std::string_view where);

  bool empty() const { return request_.messages.empty(); }
  bool last_is_assistant() const {
    return !empty() && request_.messages.back().role == "assistant";
  }
  bool last_has_calls() const { return last().other.contains("tool_calls"); }
  bool last_has_content() const { return !last().content.empty(); }
  Message& last() { return request_.messages.back(); }
  const Message& last() const { return request_.messages.back(); }

 private:
  Result<void> part(ContentPart part, std::string_view where);

  ChatRequest& request_;
  std::string_view param_;
  std::size_t parts_ = 0;  // of all messages
};

// A function as chat's `tools` has it: `from` is a tool of another API, whose schema is
// `parameters` (null: none).
json::object chat_tool(std::string_view name, const json::object& from,
                       const json::value* parameters);

// {"type": "json_schema", "schema": {...}} of the member `param`. kInvalid names it.
Result<StructuredOutput> schema_output(const json::object& format, const std::string& param);

// A member of an object that has to be a string, or may be absent; errors name `param` and say
// `where`.
Result<std::string> string_of(const json::object& from, std::string_view name,
                              std::string_view param, std::string_view where);
// The `type` of a part or an item; empty where it has none.
std::string_view type_of(const json::object& from);
// kInvalid where a part has contents of another type beside `read`, what its own is read from.
Result<void> check_contents(const json::object& part, std::initializer_list<std::string_view> read,
                            std::string_view param, std::string_view where);

}  // namespace saccade::api
