#include "tools/required_calls.h"

#include <boost/json/array.hpp>

namespace saccade::tools {
namespace {

// `f` as {"begin": before the arguments, "schema": of them, "end": after them}.
json::object structure_of(const WrittenForm& form, const json::object& function) {
  const std::string name(function.at("name").get_string());
  const json::value* parameters = json::find(function, "parameters");
  json::object none{
      {"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
  return {{"begin", fmt::format("{}{}{}", form.before_name, name, form.before_arguments)},
          {"schema", parameters != nullptr ? *parameters : json::value(std::move(none))},
          {"end", json::string(form.after_arguments)}};
}

}  // namespace

Result<std::string> required_calls(const ToolCallFormat& format, const json::array& tools,
                                   std::string_view name, int most) {
  const WrittenForm& form = format.written;
  if (form.before_name.empty())
    return fail(ErrorCode::kUnsupported,
                "'tool_choice' that demands a call is not supported with --tool-call-parser {}, "
                "whose arguments are no JSON",
                format.name);
  json::array structures;
  for (const json::value& tool : tools) {
    const json::object& function = tool.at("function").get_object();
    if (!name.empty() && function.at("name").get_string() != name) continue;
    structures.push_back(structure_of(form, function));
    if (!name.empty()) break;
  }
  const json::object wanted{{"begin", json::string(form.before)},
                            {"structures", std::move(structures)},
                            {"separator", json::string(form.between)},
                            {"end", json::string(form.after)},
                            {"most", most}};
  std::string text;
  json::JsonWriter(text).value(json::value(wanted));
  return text;
}

}  // namespace saccade::tools
