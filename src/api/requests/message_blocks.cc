#include "api/requests/message_blocks.h"

#include <boost/json/array.hpp>
#include <string>
#include <utility>

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {
namespace {

constexpr std::string_view kMessagesParam = "messages";

// What Claude Code puts before its instructions: another one in each request, and nothing to read
// for a model. Left out, so that the rest is found in the prefix cache.
constexpr std::string_view kBilling = "x-anthropic-billing-header";

Result<const json::object*> object_of(const json::value& v, std::string_view where) {
  if (!v.is_object())
    return invalid(kMessagesParam, "{} is {}, an object is required", where, json::kind_name(v));
  TRY_DO(within(limits::kMessageMembers, v.get_object().size(), where));
  return &v.get_object();
}

// It becomes a part of a data: URL.
bool is_media_type(std::string_view text) {
  if (!text.starts_with("image/") || text.size() > 64) return false;
  return text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.+-") ==
         std::string_view::npos;
}

Result<void> read_image_block(const json::object& block, std::string_view where,
                              Conversation& into) {
  const json::value* v = json::find(block, "source");
  if (v == nullptr || !v->is_object())
    return invalid(kMessagesParam, "{}: 'source' is {}, an object is required", where,
                   v == nullptr ? "missing" : json::kind_name(*v));
  const json::object& source = v->get_object();
  const std::string_view type = type_of(source);
  ImagePart image;
  if (type == "url") {
    TRY(image.url, string_of(source, "url", kMessagesParam, where));
  } else if (type == "base64") {
    TRY(const std::string media, string_of(source, "media_type", kMessagesParam, where));
    if (!is_media_type(media))
      return invalid(kMessagesParam,
                     "{}: 'media_type' is '{}', image/jpeg, image/png and the like are known",
                     where, media.substr(0, 40));
    TRY(const std::string data, string_of(source, "data", kMessagesParam, where));
    image.url = fmt::format("data:{};base64,{}", media, data);
  } else if (type == "file") {
    return invalid(kMessagesParam,
                   "{}: a source of type 'file' is not supported: this server keeps no files; give "
                   "the image as base64 or as a url",
                   where);
  } else {
    return invalid(kMessagesParam, "{}: the source has the type '{}'; base64 and url are supported",
                   where, type.substr(0, 40));
  }
  return into.image(std::move(image), where);
}

// A text or an image, which users' messages and results of tools may have.
Result<void> read_shown(const json::object& block, std::string_view where, std::string_view known,
                        Conversation& into) {
  const std::string_view type = type_of(block);
  if (type == "text") {
    TRY_DO(check_contents(block, {"text"}, kMessagesParam, where));
    TRY(std::string text, string_of(block, "text", kMessagesParam, where));
    return into.text(std::move(text), where);
  }
  if (type == "image") {
    TRY_DO(check_contents(block, {"source"}, kMessagesParam, where));
    return read_image_block(block, where, into);
  }
  return invalid(kMessagesParam, "{}: a block of type '{}' is not supported here; {} are", where,
                 type.substr(0, 40), known);
}

Result<void> read_result(const json::object& block, std::string_view where, Conversation& into) {
  TRY(const std::string id, string_of(block, "tool_use_id", kMessagesParam, where));
  TRY(const bool failed, json::get_bool_or(block, "is_error", false));
  const json::value* content = json::find(block, "content");
  const bool list = content != nullptr && content->is_array();
  TRY_DO(into.begin("tool", list));
  into.last().other["tool_call_id"] = id;
  if (failed) into.last().other["is_error"] = true;  // for templates that show it
  if (content == nullptr) return into.text("", where);
  if (content->is_string()) return into.text(std::string(content->get_string()), where);
  if (!list)
    return invalid(kMessagesParam, "{}: 'content' is {}, a string or an array is required", where,
                   json::kind_name(*content));
  std::size_t number = 0;
  for (const json::value& v : content->get_array()) {
    const std::string inner = fmt::format("{}.content[{}]", where, number++);
    TRY(const json::object* part, object_of(v, inner));
    TRY_DO(read_shown(*part, inner, "text and image", into));
  }
  return {};
}

Result<void> read_users(const json::object& block, std::string_view where, Conversation& into) {
  if (type_of(block) == "tool_result") return read_result(block, where, into);
  if (into.empty() || into.last().role != "user") TRY_DO(into.begin("user", true));
  return read_shown(block, where, "text, image and tool_result", into);
}

// Thoughts, text and calls of neighbours are one message of the assistant, as templates have them;
// what comes after a call is a next message.
Result<void> read_assistants(const json::object& block, std::string_view where,
                             Conversation& into) {
  const std::string_view type = type_of(block);
  if (type == "text") {
    TRY_DO(check_contents(block, {"text"}, kMessagesParam, where));
    TRY(std::string text, string_of(block, "text", kMessagesParam, where));
    if (!into.last_is_assistant() || into.last_has_calls()) TRY_DO(into.begin("assistant", false));
    return into.text(std::move(text), where);
  }
  if (type == "tool_use") {
    TRY(const std::string id, string_of(block, "id", kMessagesParam, where));
    TRY(const std::string name, string_of(block, "name", kMessagesParam, where));
    const json::value* input = json::find(block, "input");
    if (input == nullptr || !input->is_object())
      return invalid(kMessagesParam, "{}: 'input' is {}, an object is required", where,
                     input == nullptr ? "missing" : json::kind_name(*input));
    TRY_DO(into.assistant(false));
    return into.call(id, name, *input, where);
  }
  if (type == "thinking") {
    TRY_DO(check_contents(block, {"thinking"}, kMessagesParam, where));
    TRY(const std::string text, string_of(block, "thinking", kMessagesParam, where));
    TRY_DO(into.assistant(true));
    into.reasoning(text);
    return {};
  }
  // Another server's, which it alone can read.
  if (type == "redacted_thinking") return {};
  return invalid(kMessagesParam,
                 "{}: a block of type '{}' is not supported here; text, thinking and tool_use are",
                 where, type.substr(0, 40));
}

}  // namespace

// An empty text is no message: templates have words of their own where there is none.
Result<void> read_system(const json::value& system, Conversation& into) {
  if (system.is_string()) {
    if (system.get_string().empty()) return {};
    TRY_DO(into.begin("system", false));
    return into.text(std::string(system.get_string()), "system");
  }
  if (!system.is_array())
    return invalid("system", "'system' is {}, a string or an array of text blocks is required",
                   json::kind_name(system));
  bool begun = false;
  std::size_t number = 0;
  for (const json::value& v : system.get_array()) {
    const std::string where = fmt::format("system[{}]", number++);
    TRY(const json::object* block, object_of(v, where));
    if (type_of(*block) != "text")
      return invalid("system", "{}: a block of type '{}' is not supported here; text is", where,
                     type_of(*block).substr(0, 40));
    TRY(std::string text, string_of(*block, "text", "system", where));
    if (text.empty() || text.starts_with(kBilling)) continue;
    if (!std::exchange(begun, true)) TRY_DO(into.begin("system", true));
    TRY_DO(into.text(std::move(text), where));
  }
  return {};
}

Result<void> read_turn(const json::value& v, std::string_view where, Conversation& into) {
  TRY(const json::object* message, object_of(v, where));
  TRY(std::string role, string_of(*message, "role", kMessagesParam, where));
  // What Claude Code calls what its user did not write himself.
  if (role == "ctx" || role == "msg") role = "user";
  if (role != "user" && role != "assistant" && role != "system")
    return invalid(kMessagesParam, "{}: the role is '{}'; user, assistant and system are known",
                   where, role.substr(0, 40));
  const json::value* content = json::find(*message, "content");
  if (content == nullptr) return invalid(kMessagesParam, "{}: 'content' is missing", where);
  if (role == "system") return read_system(*content, into);
  if (content->is_string()) {
    const bool goes_on = !into.empty() && into.last().role == role && !into.last_has_calls();
    if (!goes_on) TRY_DO(into.begin(role, false));
    return into.text(std::string(content->get_string()), where);
  }
  if (!content->is_array())
    return invalid(kMessagesParam,
                   "{}: 'content' is {}, a string or an array of blocks is required", where,
                   json::kind_name(*content));
  if (content->get_array().empty() && role == "user")
    return invalid(kMessagesParam, "{}: 'content' is empty, at least one block is required", where);
  std::size_t number = 0;
  for (const json::value& item : content->get_array()) {
    const std::string inner = fmt::format("{}.content[{}]", where, number++);
    TRY(const json::object* block, object_of(item, inner));
    TRY_DO(role == "user" ? read_users(*block, inner, into) : read_assistants(*block, inner, into));
  }
  return {};
}

}  // namespace saccade::api
