#include "api/requests/conversation.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <utility>

#include "api/pages/limits.h"
#include "api/requests/fields/fields.h"
#include "api/requests/fields/member_check.h"

namespace saccade::api {

Result<void> Conversation::begin(std::string_view role, bool parts) {
  TRY_DO(within(limits::kMessages, request_.messages.size() + 1, param_));
  Message message;
  message.role = role;
  message.has_parts = parts;
  request_.messages.push_back(std::move(message));
  return {};
}

Result<void> Conversation::assistant(bool fresh) {
  if (last_is_assistant() && !(fresh && (last_has_calls() || last_has_content()))) return {};
  return begin("assistant", false);
}

Result<void> Conversation::part(ContentPart part, std::string_view where) {
  TRY_DO(within(limits::kParts, ++parts_, where));
  Message& message = last();
  // A second part makes a list of what was a text.
  if (!message.content.empty()) message.has_parts = true;
  message.content.push_back(std::move(part));
  return {};
}

Result<void> Conversation::text(std::string text, std::string_view where) {
  return part({ContentPart::Kind::kText, std::move(text), 0}, where);
}

Result<void> Conversation::image(ImagePart image, std::string_view where) {
  if (request_.images.size() == limits::kImages.most)
    return invalid(param_, "more than {} images in one request", limits::kImages.most);
  request_.images.push_back(std::move(image));
  last().has_parts = true;
  return part({ContentPart::Kind::kImage, {}, request_.images.size() - 1}, where);
}

void Conversation::reasoning(std::string_view text) {
  json::value& all = last().other["reasoning_content"];
  if (all.is_null()) all = json::string();
  all.get_string().append(text);
}

Result<void> Conversation::call(std::string_view id, std::string_view name, json::value arguments,
                                std::string_view where) {
  json::value& calls = last().other["tool_calls"];
  if (calls.is_null()) calls = json::array();
  TRY_DO(within(limits::kToolCalls, calls.get_array().size() + 1, where));
  json::object function;
  function["name"] = name;
  function["arguments"] = std::move(arguments);
  json::object made;
  made["id"] = id;
  made["type"] = "function";
  made["function"] = std::move(function);
  calls.get_array().push_back(std::move(made));
  return {};
}

json::object chat_tool(std::string_view name, const json::object& from,
                       const json::value* parameters) {
  json::object function;
  function["name"] = name;
  if (const json::value* said = json::find(from, "description")) function["description"] = *said;
  if (parameters != nullptr) function["parameters"] = *parameters;
  // For templates that show them.
  for (const std::string_view member :
       {"strict", "defer_loading", "input_examples", "output_schema"}) {
    if (const json::value* said = json::find(from, member)) function[member] = *said;
  }
  json::object tool;
  tool["type"] = "function";
  tool["function"] = std::move(function);
  return tool;
}

Result<StructuredOutput> schema_output(const json::object& format, const std::string& param) {
  const json::value* schema = json::find(format, "schema");
  if (schema == nullptr)
    return invalid(param, "'{}' of type 'json_schema' needs a 'schema'", param);
  if (!schema->is_object())
    return invalid(param, "'{}.schema' is {}, an object is required", param,
                   json::kind_name(*schema));
  StructuredOutput output;
  output.kind = StructuredOutput::Kind::kJsonSchema;
  output.param = param;
  json::JsonWriter(output.text).value(*schema);
  return output;
}

Result<std::string> string_of(const json::object& from, std::string_view name,
                              std::string_view param, std::string_view where) {
  auto text = json::get_string(from, name);
  if (!text) return invalid(param, "{}: {}", where, text.error().message);
  return *std::move(text);
}

Result<void> check_contents(const json::object& part, std::initializer_list<std::string_view> read,
                            std::string_view param, std::string_view where) {
  for (const std::string_view name :
       {"text", "refusal", "thinking", "image_url", "image", "image_embeds", "video_url", "video",
        "input_audio", "audio_url", "file", "source"}) {
    const json::value* v = json::find(part, name);
    if (v == nullptr || !asks_for_something(*v) || std::ranges::find(read, name) != read.end())
      continue;
    return invalid(param, "{}: a part of type '{}' has '{}' too: send it as a part of its own",
                   where, type_of(part).substr(0, 40), name);
  }
  return {};
}

std::string_view type_of(const json::object& from) {
  const json::value* type = json::find(from, "type");
  return type != nullptr && type->is_string() ? std::string_view(type->get_string())
                                              : std::string_view();
}

}  // namespace saccade::api
