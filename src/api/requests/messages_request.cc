#include "api/requests/messages_request.h"

#include <boost/json/array.hpp>
#include <utility>

#include "api/pages/limits.h"
#include "api/requests/conversation.h"
#include "api/requests/fields/fields.h"
#include "api/requests/message_blocks.h"

namespace saccade::api {
namespace {

// A function of the client's. Those with a type of their own run elsewhere or are known to one
// model alone.
Result<json::object> chat_tool_of(const json::value& v, std::string_view where) {
  if (!v.is_object())
    return invalid("tools", "{} is {}, an object is required", where, json::kind_name(v));
  const json::object& tool = v.get_object();
  const json::value* type = json::find(tool, "type");
  if (type != nullptr && *type != "custom")
    return invalid("tools",
                   "{}: the type is {}; only \"custom\", a tool of the client's with an "
                   "'input_schema', is supported",
                   where,
                   type->is_string() ? fmt::format("'{}'", type_of(tool).substr(0, 40))
                                     : std::string(json::kind_name(*type)));
  TRY(const std::string name, string_of(tool, "name", "tools", where));
  const json::value* schema = json::find(tool, "input_schema");
  if (schema == nullptr || !schema->is_object())
    return invalid("tools", "{}: 'input_schema' is {}, an object is required", where,
                   schema == nullptr ? "missing" : json::kind_name(*schema));
  return chat_tool(name, tool, schema);
}

Result<json::value> chat_choice_of(const json::object& choice) {
  const std::string_view type = type_of(choice);
  if (type == "auto" || type == "none") return json::value(json::string(type));
  if (type == "any") return json::value("required");
  if (type == "tool") {
    TRY(const std::string name, string_of(choice, "name", "tool_choice", "'tool_choice'"));
    return json::value(
        json::object{{"type", "function"}, {"function", json::object{{"name", name}}}});
  }
  return invalid("tool_choice",
                 "'tool_choice' has the type '{}'; auto, any, tool and none are known",
                 type.substr(0, 40));
}

// tools and tool_choice in chat's shape, read by chat's reader.
Result<void> take_tools(Fields& fields, ChatRequest& request) {
  json::object chat;
  TRY(const json::array* list, fields.array("tools"));
  if (list != nullptr) {
    TRY_DO(within(limits::kTools, list->size()));
    json::array tools;
    for (std::size_t i = 0; i < list->size(); ++i) {
      TRY(json::object tool, chat_tool_of((*list)[i], fmt::format("tools[{}]", i)));
      tools.push_back(std::move(tool));
    }
    chat["tools"] = std::move(tools);
  }
  TRY(const json::object* choice, fields.object("tool_choice"));
  if (choice != nullptr) {
    TRY(chat["tool_choice"], chat_choice_of(*choice));
    auto one = json::get_bool_or(*choice, "disable_parallel_tool_use", false);
    if (!one) return invalid("tool_choice", "'tool_choice': {}", one.error().message);
    chat["parallel_tool_calls"] = !*one;
  }
  Fields inner(chat);
  TRY(request.tools, take_tool_fields(inner));
  return {};
}

// Whether to think is the template's to show, under the name that templates have for it. A budget
// is not kept: thoughts end where the model ends them.
Result<void> take_thinking(Fields& fields, ChatRequest& request) {
  TRY(const json::object* thinking, fields.object("thinking"));
  if (thinking == nullptr) return {};
  const std::string_view type = type_of(*thinking);
  if (type != "enabled" && type != "adaptive" && type != "disabled")
    return invalid("thinking",
                   "'thinking' has the type '{}'; enabled, adaptive and disabled are known",
                   type.substr(0, 40));
  json::object& variables = request.chat_template_kwargs;
  if (!variables.contains("enable_thinking")) variables["enable_thinking"] = type != "disabled";
  return {};
}

// The answer's form: output_config.format, or its older place.
Result<void> take_form(Fields& fields, ChatRequest& request) {
  TRY(const json::object* config, fields.object("output_config"));
  TRY(const json::object* older, fields.object("output_format"));
  const json::object* format = older;
  std::string param = "output_format";
  if (config != nullptr) {
    Fields inner(*config);
    TRY(const auto effort, inner.text("effort"));
    if (effort) TRY_DO(show_effort(*effort, "output_config.effort", request));
    TRY(const json::object* given, inner.object("format"));
    if (given != nullptr) {
      if (older != nullptr)
        return invalid("output_format",
                       "'output_format' and 'output_config.format' both ask for the answer's form, "
                       "one may");
      format = given;
      param = "output_config.format";
    }
  }
  if (format == nullptr) return {};
  if (type_of(*format) != "json_schema")
    return invalid(param, "'{}' has the type '{}'; json_schema is known", param,
                   type_of(*format).substr(0, 40));
  std::optional<StructuredOutput>& structured = request.sampling.structured;
  if (structured)
    return invalid(param, "'{}' and '{}' both ask for the answer's form, one may",
                   structured->param, param);
  TRY(structured, schema_output(*format, param));
  return {};
}

Result<void> take_turns(Fields& fields, ChatRequest& request) {
  const json::value* system = fields.take("system");
  TRY(const json::array* list, fields.array("messages"));
  if (list == nullptr) return invalid("messages", "'messages' is missing, an array is required");
  if (list->empty())
    return invalid("messages", "'messages' is empty, at least one message is required");
  TRY_DO(within(limits::kMessages, list->size()));
  Conversation conversation(request, "messages");
  if (system != nullptr) TRY_DO(read_system(*system, conversation));
  for (std::size_t i = 0; i < list->size(); ++i)
    TRY_DO(read_turn((*list)[i], fmt::format("messages[{}]", i), conversation));
  if (conversation.empty() || conversation.last().role == "system")
    return invalid("messages", "'messages' has nothing that could be answered");
  if (!conversation.last_is_assistant()) return {};
  // The answer goes on where the assistant's message ends.
  if (conversation.last_has_calls())
    return invalid(
        "messages",
        "messages[{}]: a call of a tool is the last thing said: its 'tool_result' has to "
        "follow",
        list->size() - 1);
  const Message& last = conversation.last();
  if (last.content.empty() || last.content.back().text.empty())
    return invalid("messages",
                   "messages[{}]: the assistant's message is empty, an answer cannot go on from it",
                   list->size() - 1);
  request.continue_final_message = true;
  request.add_generation_prompt = false;
  return {};
}

Result<ChatRequest> parse(std::string_view body, bool needs_max_tokens) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  ChatRequest request;
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  TRY_DO(fields.settle(RequestKind::kMessages));
  TRY(request.sampling, take_sampling(fields));
  SamplingFields& sampling = request.sampling;
  if (needs_max_tokens && !sampling.max_tokens)
    return invalid("max_tokens", "'max_tokens' is missing, an integer is required");
  if (sampling.n != 1) return invalid("n", "'n' is {}, a message has one answer", sampling.n);
  TRY(sampling.stop, take_stops(fields, "stop_sequences"));
  TRY_DO(take_template_fields(fields, request));
  request.add_generation_prompt = true;
  TRY_DO(take_thinking(fields, request));
  TRY_DO(take_turns(fields, request));
  TRY_DO(take_tools(fields, request));
  TRY_DO(take_form(fields, request));
  TRY(const json::object* metadata, fields.object("metadata"));
  if (metadata != nullptr) TRY_DO(within(limits::kMetadata, metadata->size()));
  TRY(const auto stream, fields.boolean("stream"));
  request.delivery.stream = stream.value_or(false);
  TRY_DO(take_queue_fields(fields, request.delivery));
  TRY_DO(refuse_best_of(fields));
  TRY_DO(refuse_prompt_logprobs(fields));
  TRY_DO(take_reasoning_form(fields, request.delivery));
  request.unknown = fields.unknown();
  return request;
}

}  // namespace

Result<ChatRequest> parse_messages_request(std::string_view body) { return parse(body, true); }

Result<ChatRequest> parse_count_tokens_request(std::string_view body) { return parse(body, false); }

std::string token_count_response(std::int64_t tokens, std::string_view object) {
  std::string out;
  json::JsonWriter w(out);
  w.begin_object();
  if (!object.empty()) w.member("object", object);
  w.member("input_tokens", tokens);
  w.end_object();
  return out;
}

}  // namespace saccade::api
