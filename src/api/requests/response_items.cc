#include "api/requests/response_items.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"

namespace saccade::api {
namespace {

constexpr std::string_view kInputParam = "input";

Result<void> read_image_part(const json::object& part, std::string_view where, Conversation& into) {
  TRY_DO(check_contents(part, {"image_url", "image"}, kInputParam, where));
  TRY(ImagePart image, read_image(part, kInputParam, where));
  return into.image(std::move(image), where);
}

// A part of a message or of a function's output.
Result<void> read_item_part(const json::value& v, std::string_view where, Conversation& into) {
  if (!v.is_object())
    return invalid(kInputParam, "{} is {}, an object is required", where, json::kind_name(v));
  const json::object& part = v.get_object();
  const std::string_view type = type_of(part);
  if (type == "input_text" || type == "output_text" || type == "text") {
    TRY_DO(check_contents(part, {"text"}, kInputParam, where));
    TRY(std::string text, string_of(part, "text", kInputParam, where));
    return into.text(std::move(text), where);
  }
  if (type == "refusal") {
    TRY_DO(check_contents(part, {"refusal"}, kInputParam, where));
    TRY(std::string text, string_of(part, "refusal", kInputParam, where));
    return into.text(std::move(text), where);
  }
  if (type == "input_image") return read_image_part(part, where, into);
  return invalid(kInputParam,
                 "{}: a part of type '{}' is not supported; input_text, input_image, output_text "
                 "and refusal are",
                 where, type.substr(0, 40));
}

Result<void> read_content(const json::object& item, std::string_view name, std::string_view where,
                          Conversation& into) {
  const json::value* content = json::find(item, name);
  if (content == nullptr) return invalid(kInputParam, "{}: '{}' is missing", where, name);
  if (content->is_string()) return into.text(std::string(content->get_string()), where);
  if (!content->is_array())
    return invalid(kInputParam, "{}: '{}' is {}, a string or an array is required", where, name,
                   json::kind_name(*content));
  std::size_t number = 0;
  for (const json::value& part : content->get_array())
    TRY_DO(read_item_part(part, fmt::format("{}.{}[{}]", where, name, number++), into));
  return {};
}

bool is_list(const json::object& item, std::string_view name) {
  const json::value* content = json::find(item, name);
  return content != nullptr && content->is_array();
}

Result<void> read_message_item(const json::object& item, std::string_view where,
                               Conversation& into) {
  TRY(const std::string role, string_of(item, "role", kInputParam, where));
  constexpr std::array<std::string_view, 4> kRoles = {"system", "developer", "user", "assistant"};
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
    return invalid(kInputParam,
                   "{}: the role is '{}'; system, developer, user and assistant are known", where,
                   role.substr(0, 40));
  if (role == "assistant") {
    TRY_DO(into.assistant(true));
  } else {
    TRY_DO(into.begin(role, is_list(item, "content")));
  }
  return read_content(item, "content", where, into);
}

Result<void> read_call(const json::object& item, std::string_view where, Conversation& into) {
  TRY(const std::string id, string_of(item, "call_id", kInputParam, where));
  TRY(const std::string name, string_of(item, "name", kInputParam, where));
  TRY(const std::string arguments, string_of(item, "arguments", kInputParam, where));
  TRY_DO(into.assistant(false));
  return into.call(id, name, json::string(arguments), where);
}

Result<void> read_call_output(const json::object& item, std::string_view where,
                              Conversation& into) {
  TRY(const std::string id, string_of(item, "call_id", kInputParam, where));
  TRY_DO(into.begin("tool", is_list(item, "output")));
  into.last().other["tool_call_id"] = id;
  return read_content(item, "output", where, into);
}

// Thoughts as this server gave them. A summary stands in where there is no more.
Result<void> read_reasoning(const json::object& item, std::string_view where, Conversation& into) {
  std::string text;
  for (const auto& [list, type] :
       {std::pair("content", "reasoning_text"), std::pair("summary", "summary_text")}) {
    const json::value* parts = json::find(item, list);
    if (parts == nullptr || !text.empty()) continue;
    if (!parts->is_array())
      return invalid(kInputParam, "{}: '{}' is {}, an array is required", where, list,
                     json::kind_name(*parts));
    for (const json::value& part : parts->get_array()) {
      if (!part.is_object() || type_of(part.get_object()) != type)
        return invalid(kInputParam, "{}.{}: parts of type '{}' are required", where, list, type);
      TRY(const std::string more, string_of(part.get_object(), "text", kInputParam, where));
      text += more;
    }
  }
  if (text.empty()) return {};
  TRY_DO(into.assistant(true));
  into.reasoning(text);
  return {};
}

}  // namespace

Result<void> read_item(const json::value& v, std::string_view where, Conversation& into) {
  if (!v.is_object())
    return invalid(kInputParam, "{} is {}, an object is required", where, json::kind_name(v));
  const json::object& item = v.get_object();
  TRY_DO(within(limits::kMessageMembers, item.size(), where));
  const std::string_view type = type_of(item);
  const bool untyped = type.empty() && json::find(item, "role") != nullptr;
  if (type == "message" || untyped) return read_message_item(item, where, into);
  if (type == "function_call") return read_call(item, where, into);
  if (type == "function_call_output") return read_call_output(item, where, into);
  if (type == "reasoning") return read_reasoning(item, where, into);
  if (type == "item_reference")
    return invalid(kInputParam,
                   "{}: 'item_reference' is not supported: send the item, or go on from "
                   "'previous_response_id'",
                   where);
  return invalid(kInputParam,
                 "{}: an item of type '{}' is not supported; message, function_call, "
                 "function_call_output and reasoning are",
                 where, type.substr(0, 40));
}

}  // namespace saccade::api
