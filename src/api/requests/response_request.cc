#include "api/requests/response_request.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <utility>

#include "api/pages/limits.h"
#include "api/requests/conversation.h"
#include "api/requests/fields/fields.h"
#include "api/requests/response_items.h"

namespace saccade::api {
namespace {

Result<void> refuse_others(Fields& fields) {
  TRY_DO(fields.settle(RequestKind::kResponse));
  TRY(const auto n, fields.integer("n"));
  if (n && *n != 1) return invalid("n", "'n' is {}, a response has one answer", *n);
  TRY(const auto truncation, fields.text("truncation"));
  if (truncation && *truncation != "disabled")
    return invalid("truncation",
                   "'truncation' is '{}', only 'disabled' is supported: leave out of 'input' what "
                   "is too long",
                   truncation->substr(0, 40));
  return {};
}

constexpr std::string_view kLogprobs = "message.output_text.logprobs";
// What else OpenAI's API knows belongs to tools that only OpenAI has, or shows more of what was
// given: without it the answer is the same.
constexpr std::string_view kIncludable[] = {
    kLogprobs,
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
};

Result<void> take_include(Fields& fields, ChatRequest& chat) {
  TRY(const json::array* include, fields.array("include"));
  if (include != nullptr) {
    for (const json::value& one : *include) {
      if (!one.is_string())
        return invalid("include", "'include' holds {}, strings are required", json::kind_name(one));
      const std::string_view name = one.get_string();
      if (std::ranges::find(kIncludable, name) == std::end(kIncludable))
        return invalid("include", "'include' holds '{}', known are {}", name.substr(0, 60),
                       fmt::join(kIncludable, ", "));
      chat.logprobs = chat.logprobs || name == kLogprobs;
    }
  }
  TRY(const auto top, fields.integer("top_logprobs", 0));
  chat.top_logprobs = top.value_or(0);
  if (chat.top_logprobs > 0 && !chat.logprobs)
    return invalid(
        "top_logprobs",
        "'top_logprobs' is {}, which needs \"message.output_text.logprobs\" in 'include'",
        chat.top_logprobs);
  return {};
}

Result<json::object> flat_tool(const json::value& v, std::string_view where) {
  if (!v.is_object())
    return invalid("tools", "{} is {}, an object is required", where, json::kind_name(v));
  const json::object& tool = v.get_object();
  const std::string_view type = type_of(tool);
  if (type != "function")
    return invalid("tools", "{}: the type is '{}'; only \"function\" is supported", where,
                   type.substr(0, 40));
  TRY(const std::string name, string_of(tool, "name", "tools", where));
  return chat_tool(name, tool, json::find(tool, "parameters"));
}

// {"type": "allowed_tools", "mode": ..., "tools": [{"type": "function", "name": ...}]} in chat's
// shape.
Result<json::value> allowed_choice(const json::object& choice) {
  json::array tools;
  const json::value* list = json::find(choice, "tools");
  if (list == nullptr || !list->is_array())
    return invalid("tool_choice", "'tool_choice.tools' is {}, an array is required",
                   list == nullptr ? "missing" : json::kind_name(*list));
  for (const json::value& v : list->get_array()) {
    TRY(json::object tool, flat_tool(v, "tool_choice.tools"));
    tools.push_back(std::move(tool));
  }
  json::object allowed{{"tools", std::move(tools)}};
  if (const json::value* mode = json::find(choice, "mode")) allowed["mode"] = *mode;
  return json::value(
      json::object{{"type", "allowed_tools"}, {"allowed_tools", std::move(allowed)}});
}

// tools and tool_choice in chat's shape, read by chat's reader.
Result<void> take_response_tools(Fields& fields, ResponseRequest& request) {
  json::object chat;
  TRY(const json::array* list, fields.array("tools"));
  if (list != nullptr) {
    TRY_DO(within(limits::kTools, list->size()));
    request.tools = *list;
    json::array tools;
    for (std::size_t i = 0; i < list->size(); ++i) {
      TRY(json::object tool, flat_tool((*list)[i], fmt::format("tools[{}]", i)));
      tools.push_back(std::move(tool));
    }
    chat["tools"] = std::move(tools);
  }
  if (const json::value* choice = fields.take("tool_choice")) {
    request.tool_choice = *choice;
    chat["tool_choice"] = *choice;
    if (choice->is_object()) {
      const json::object& named = choice->get_object();
      if (type_of(named) == "allowed_tools") {
        TRY(chat["tool_choice"], allowed_choice(named));
      } else if (type_of(named) == "function") {
        TRY(const std::string name, string_of(named, "name", "tool_choice", "'tool_choice'"));
        chat["tool_choice"] =
            json::object{{"type", "function"}, {"function", json::object{{"name", name}}}};
      } else {
        return invalid("tool_choice",
                       "'tool_choice' has the type '{}'; auto, none, required, {{\"type\": "
                       "\"function\", \"name\": ...}} and allowed_tools are supported",
                       type_of(named).substr(0, 40));
      }
    }
  }
  if (const json::value* parallel = fields.take("parallel_tool_calls"))
    chat["parallel_tool_calls"] = *parallel;
  Fields inner(chat);
  TRY(request.chat.tools, take_tool_fields(inner));
  return {};
}

Result<void> take_text(Fields& fields, ResponseRequest& request) {
  TRY(const json::object* text, fields.object("text"));
  if (text == nullptr) return {};
  Fields inner(*text);
  TRY(const auto verbosity, inner.text("verbosity"));
  TRY(const json::object* format, inner.object("format"));
  if (verbosity) {
    TRY_DO(within(limits::kEffort, verbosity->size(), "text.verbosity"));
    request.chat.chat_template_kwargs["verbosity"] = *verbosity;
  }
  if (format == nullptr) return {};
  request.text_format = *format;
  const std::string_view type = type_of(*format);
  if (type == "text") return {};
  StructuredOutput output;
  output.param = "text.format";
  if (type == "json_schema") {
    TRY(output, schema_output(*format, output.param));
  } else if (type != "json_object") {
    return invalid("text.format",
                   "'text.format' has the type '{}'; text, json_object and json_schema are known",
                   type.substr(0, 40));
  }
  if (request.chat.sampling.structured)
    return invalid("text.format", "'{}' and 'text.format' both ask for the answer's form, one may",
                   request.chat.sampling.structured->param);
  request.chat.sampling.structured = std::move(output);
  return {};
}

Result<void> take_metadata(Fields& fields, ResponseRequest& request) {
  TRY(const json::object* metadata, fields.object("metadata"));
  if (metadata == nullptr) return {};
  TRY_DO(within(limits::kMetadata, metadata->size()));
  for (const auto& member : *metadata) {
    if (!member.value().is_string())
      return invalid("metadata", "'metadata' holds {} under '{}', strings are required",
                     json::kind_name(member.value()), std::string_view(member.key()).substr(0, 40));
    const std::size_t bytes = member.key().size() + member.value().get_string().size();
    TRY_DO(within(limits::kMetadataBytes, bytes));
  }
  request.metadata = *metadata;
  return {};
}

Result<void> take_streaming(Fields& fields, ResponseRequest& request) {
  DeliveryFields& delivery = request.chat.delivery;
  TRY(const json::object* stream_options, fields.object("stream_options"));
  if (stream_options != nullptr) {
    Fields inner(*stream_options);
    for (const std::string_view name : {"include_usage", "continuous_usage_stats"}) {
      TRY(const auto wanted, inner.boolean(name));
      if (wanted.value_or(false))
        return invalid("stream_options",
                       "'stream_options.{}' is not supported for responses: usage comes at the end",
                       name);
    }
  }
  TRY(const auto stream, fields.boolean("stream"));
  delivery.stream = stream.value_or(false);
  TRY(const auto store, fields.boolean("store"));
  request.store = store.value_or(true);
  return take_queue_fields(fields, delivery);
}

// A text is one message of the user.
Result<void> take_input(Fields& fields, ResponseRequest& request) {
  const json::value* input = fields.take("input");
  if (input == nullptr)
    return invalid("input", "'input' is missing, a string or an array of items is required");
  auto text = std::make_shared<std::string>();
  json::JsonWriter w(*text);
  if (input->is_string()) {
    w.begin_array();
    w.begin_object();
    w.member("type", "message");
    w.member("role", "user");
    w.member("content", std::string_view(input->get_string()));
    w.end_object();
    w.end_array();
  } else if (input->is_array()) {
    TRY_DO(within(limits::kMessages, input->get_array().size(), "input"));
    w.value(*input);
  } else {
    return invalid("input", "'input' is {}, a string or an array of items is required",
                   json::kind_name(*input));
  }
  request.input = std::move(text);
  return {};
}

}  // namespace

Result<ResponseRequest> parse_response_request(std::string_view body) {
  TRY(const json::value tree, parse_body(body));
  Fields fields(tree.get_object());
  ResponseRequest request;
  TRY(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  request.chat.model = request.model;
  TRY_DO(refuse_others(fields));
  TRY_DO(take_include(fields, request.chat));
  TRY_DO(take_input(fields, request));
  TRY(request.instructions, fields.text("instructions"));
  TRY(request.previous_response_id, fields.text("previous_response_id"));
  TRY(request.chat.sampling, take_sampling(fields));
  SamplingFields& sampling = request.chat.sampling;
  TRY(sampling.max_tokens, fields.integer("max_output_tokens", 1));
  sampling.max_tokens_name = "max_output_tokens";
  if (sampling.max_tokens && sampling.min_tokens > *sampling.max_tokens)
    return invalid("min_tokens",
                   "'min_tokens' is {}, 'max_output_tokens' is {}: it must not be larger",
                   sampling.min_tokens, *sampling.max_tokens);
  TRY_DO(take_response_tools(fields, request));
  TRY_DO(take_metadata(fields, request));
  TRY_DO(take_streaming(fields, request));
  TRY_DO(take_template_fields(fields, request.chat));
  TRY_DO(take_text(fields, request));
  TRY(const json::object* reasoning, fields.object("reasoning"));
  if (reasoning != nullptr) {
    request.reasoning = *reasoning;
    TRY(const std::string effort, json::get_string_or(*reasoning, "effort", ""));
    if (!effort.empty()) TRY_DO(show_effort(effort, "reasoning.effort", request.chat));
  }
  TRY(const auto user, fields.text("user"));
  if (user) request.user = json::string(*user);
  TRY_DO(refuse_best_of(fields));
  TRY_DO(refuse_prompt_logprobs(fields));
  TRY_DO(take_reasoning_form(fields, request.chat.delivery));
  request.chat.unknown = fields.unknown();
  return request;
}

Result<void> add_conversation(ResponseRequest& request, const std::vector<ItemText>& history) {
  Conversation conversation(request.chat, "input");
  const bool instructed = request.instructions && !request.instructions->empty();
  if (instructed) {
    TRY_DO(conversation.begin("system", false));
    TRY_DO(conversation.text(*request.instructions, "instructions"));
  }
  const auto add = [&](const std::string& text, std::string_view name) -> Result<void> {
    TRY(const json::value items, json::parse(text));
    std::size_t number = 0;
    for (const json::value& item : items.get_array())
      TRY_DO(read_item(item, fmt::format("{}[{}]", name, number++), conversation));
    return {};
  };
  for (const ItemText& turn : history) TRY_DO(add(*turn, "previous_response_id"));
  TRY_DO(add(*request.input, "input"));
  if (conversation.empty() || (request.chat.messages.size() == 1 && instructed))
    return invalid("input", "'input' is empty, at least one item is required");
  return {};
}

}  // namespace saccade::api
