#include "api/requests/fields/tool_fields.h"

#include <boost/json/array.hpp>
#include <set>
#include <utility>

#include "api/pages/limits.h"

namespace saccade::api {
namespace {

bool is_name(std::string_view text) {
  for (const char c : text) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && std::string_view("_-.:/").find(c) == std::string_view::npos) return false;
  }
  return !text.empty();
}

Result<std::string_view> function_name(const json::object& function, std::string_view param,
                                       std::string_view where) {
  const json::value* name = json::find(function, "name");
  if (name == nullptr) return invalid(param, "{}: 'name' is missing", where);
  if (!name->is_string())
    return invalid(param, "{}: 'name' is {}, a string is required", where, json::kind_name(*name));
  return std::string_view(name->get_string());
}

// `type` may be absent in histories, as other servers have it.
Result<const json::object*> function_of(const json::value& v, std::string_view param,
                                        std::string_view where) {
  if (!v.is_object())
    return invalid(param, "{} is {}, an object is required", where, json::kind_name(v));
  const json::object& outer = v.get_object();
  const json::value* type = json::find(outer, "type");
  if (type != nullptr && (!type->is_string() || type->get_string() != "function")) {
    return invalid(param, "{}: the type is {}; only \"function\" is supported", where,
                   type->is_string()
                       ? fmt::format("\"{}\"", std::string_view(type->get_string()).substr(0, 40))
                       : std::string(json::kind_name(*type)));
  }
  const json::value* function = json::find(outer, "function");
  if (function == nullptr) return invalid(param, "{}: 'function' is missing", where);
  if (!function->is_object())
    return invalid(param, "{}: 'function' is {}, an object is required", where,
                   json::kind_name(*function));
  return &function->get_object();
}

Result<void> check_tool(const json::value& tool, std::string_view where) {
  TRY(const json::object* function, function_of(tool, "tools", where));
  if (json::find(tool.get_object(), "type") == nullptr)
    return invalid("tools", "{}: 'type' is missing, \"function\" is required", where);
  TRY(const std::string_view name, function_name(*function, "tools", where));
  if (name.size() > limits::kToolName.most)
    return invalid("tools", "{}: the name has {} {}, the limit is {}", where, name.size(),
                   limits::kToolName.unit, limits::kToolName.most);
  if (!is_name(name))
    return invalid("tools", "{}: the name is '{}'; letters, digits and _ - . : / are possible",
                   where, name);
  const json::value* description = json::find(*function, "description");
  if (description != nullptr && !description->is_string())
    return invalid("tools", "{}: 'description' is {}, a string is required", where,
                   json::kind_name(*description));
  const json::value* parameters = json::find(*function, "parameters");
  if (parameters != nullptr && !parameters->is_object())
    return invalid("tools", "{}: 'parameters' is {}, an object is required", where,
                   json::kind_name(*parameters));
  return {};
}

Result<void> check_tools(const json::array& tools) {
  TRY_DO(within(limits::kTools, tools.size()));
  for (std::size_t i = 0; i < tools.size(); ++i)
    TRY_DO(check_tool(tools[i], fmt::format("tools[{}]", i)));
  std::string text;
  json::JsonWriter(text).value(json::value(tools));
  return within(limits::kToolBytes, text.size());
}

bool has_tool(const json::array& tools, std::string_view name) {
  for (const json::value& tool : tools) {
    if (tool.at("function").at("name").get_string() == name) return true;
  }
  return false;
}

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}: some of the tools, by their names.
Result<void> read_allowed(const json::object& choice, ToolFields& into) {
  constexpr std::string_view kWhere = "'tool_choice.allowed_tools'";
  const json::value* given = json::find(choice, "allowed_tools");
  if (given == nullptr || !given->is_object())
    return invalid("tool_choice", "{} is {}, an object is required", kWhere,
                   given == nullptr ? "missing" : json::kind_name(*given));
  const json::value* mode = json::find(given->get_object(), "mode");
  if (mode == nullptr || (*mode != "auto" && *mode != "required"))
    return invalid("tool_choice", "{}: 'mode' must be auto or required", kWhere);
  into.choice = *mode == "auto" ? ToolChoice::kAuto : ToolChoice::kRequired;
  const json::value* list = json::find(given->get_object(), "tools");
  if (list == nullptr || !list->is_array() || list->get_array().empty())
    return invalid("tool_choice", "{}: 'tools' is no array of at least one tool", kWhere);
  TRY_DO(within(limits::kTools, list->get_array().size(), kWhere));
  for (const json::value& tool : list->get_array()) {
    TRY(const json::object* function, function_of(tool, "tool_choice", kWhere));
    TRY(const std::string_view name, function_name(*function, "tool_choice", kWhere));
    into.allowed.emplace_back(name);
  }
  return {};
}

// Those of the request that are allowed, in their order.
Result<json::array> allowed_of(const json::array& tools, const std::vector<std::string>& names) {
  const std::set<std::string_view> wanted(names.begin(), names.end());
  json::array left;
  std::set<std::string_view> found;
  for (const json::value& tool : tools) {
    const std::string_view name = tool.at("function").at("name").get_string();
    if (!wanted.contains(name)) continue;
    found.insert(name);
    left.push_back(tool);
  }
  for (const std::string_view name : wanted) {
    if (!found.contains(name))
      return invalid("tool_choice", "'tool_choice' allows '{}', which is none of the {} tools",
                     name.substr(0, limits::kToolName.most), tools.size());
  }
  return left;
}

Result<void> read_choice(const json::value& choice, ToolFields& into) {
  constexpr std::string_view kKnown =
      "auto, none, required, {\"type\": \"function\", \"function\": {\"name\": ...}} and "
      "{\"type\": \"allowed_tools\", ...} are known";
  if (choice.is_string()) {
    const std::string_view text = choice.get_string();
    if (text == "auto") {
      into.choice = ToolChoice::kAuto;
    } else if (text == "none") {
      into.choice = ToolChoice::kNone;
    } else if (text == "required") {
      into.choice = ToolChoice::kRequired;
    } else {
      return invalid("tool_choice", "'tool_choice' is '{}'; {}", text.substr(0, 40), kKnown);
    }
    return {};
  }
  if (!choice.is_object())
    return invalid("tool_choice", "'tool_choice' is {}; {}", json::kind_name(choice), kKnown);
  const json::value* type = json::find(choice.get_object(), "type");
  if (type != nullptr && *type == "allowed_tools") return read_allowed(choice.get_object(), into);
  TRY(const json::object* function, function_of(choice, "tool_choice", "'tool_choice'"));
  TRY(const std::string_view name, function_name(*function, "tool_choice", "'tool_choice'"));
  into.choice = ToolChoice::kNamed;
  into.name = name;
  return {};
}

}  // namespace

Result<ToolFields> take_tool_fields(Fields& fields) {
  ToolFields tools;
  TRY(const json::array* list, fields.array("tools"));
  const json::value* choice = fields.take("tool_choice");
  TRY(const auto parallel, fields.boolean("parallel_tool_calls"));
  tools.parallel = parallel.value_or(true);
  if (choice != nullptr) TRY_DO(read_choice(*choice, tools));
  if (list == nullptr || list->empty()) {
    if (tools.demanded())
      return invalid("tool_choice",
                     "'tool_choice' asks for a call, and the request has no 'tools' to call");
    return ToolFields{};
  }
  TRY_DO(check_tools(*list));
  json::array shown = *list;
  if (!tools.allowed.empty()) {
    TRY(shown, allowed_of(*list, tools.allowed));
  }
  tools.list = std::make_shared<const json::array>(std::move(shown));
  if (choice == nullptr) tools.choice = ToolChoice::kAuto;
  if (tools.choice == ToolChoice::kNamed && !has_tool(*list, tools.name))
    return invalid("tool_choice", "'tool_choice' names '{}', which is none of the {} tools",
                   tools.name.substr(0, limits::kToolName.most), list->size());
  return tools;
}

Result<void> check_tool_members(const json::object& message, std::string_view role,
                                std::string_view where) {
  const json::value* id = json::find(message, "tool_call_id");
  if (id != nullptr && !id->is_string())
    return invalid("messages", "{}: 'tool_call_id' is {}, a string is required", where,
                   json::kind_name(*id));
  const json::value* calls = json::find(message, "tool_calls");
  if (calls == nullptr) return {};
  if (!calls->is_array())
    return invalid("messages", "{}: 'tool_calls' is {}, an array is required", where,
                   json::kind_name(*calls));
  const json::array& list = calls->get_array();
  if (list.empty()) return {};
  if (role != "assistant")
    return invalid("messages", "{}: only an assistant has 'tool_calls', the role is '{}'", where,
                   role);
  TRY_DO(within(limits::kToolCalls, list.size(), fmt::format("{}.tool_calls", where)));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string call = fmt::format("{}.tool_calls[{}]", where, i);
    TRY(const json::object* function, function_of(list[i], "messages", call));
    TRY_DO(function_name(*function, "messages", call).map([](auto) {}));
    const json::value* arguments = json::find(*function, "arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object())
      return invalid("messages", "{}: 'arguments' is {}, JSON in a string is required", call,
                     json::kind_name(*arguments));
  }
  return {};
}

json::value with_parsed_arguments(const json::value& tool_calls) {
  json::value calls = tool_calls;
  if (!calls.is_array()) return calls;
  for (auto& call : calls.get_array()) {
    json::object* outer = call.if_object();
    json::value* function = outer ? outer->if_contains("function") : nullptr;
    json::object* inner = function ? function->if_object() : nullptr;
    if (inner == nullptr) continue;
    json::value* arguments = &(*inner)["arguments"];
    if (arguments->is_null() || (arguments->is_string() && arguments->get_string().empty()))
      *arguments = json::object();
    if (!arguments->is_string()) continue;
    auto parsed = json::parse(std::string_view(arguments->get_string()));
    if (parsed && parsed->is_object()) *arguments = *std::move(parsed);
    if (parsed && parsed->is_null()) *arguments = json::object();
  }
  return calls;
}

}  // namespace saccade::api
