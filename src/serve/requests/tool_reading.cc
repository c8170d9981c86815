#include "serve/requests/tool_reading.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/result.h"
#include "tools/required_calls.h"

namespace saccade::serve {
namespace {

json::array tools_of_probe() {
  return {json::object{
      {"type", "function"},
      {"function", json::object{{"name", "saccade_probe"},
                                {"description", "probe"},
                                {"parameters", json::object{{"type", "object"},
                                                            {"properties", json::object()}}}}}}};
}

bool shows_tools(const ChatTemplate& chat_template, const ContentFormat& format,
                 const json::object& variables) {
  json::array messages = {json::object{{"role", "user"}, {"content", "x"}}};
  if (!format.arrange(messages, [](std::string_view, int) { return std::string(); })) return false;
  const json::array tools = tools_of_probe();
  ChatTemplateOptions options;
  options.variables = variables;
  std::int64_t steps = 1'000'000;  // far more than such a question takes
  options.steps_left = &steps;
  const auto without = chat_template.render(messages, options);
  options.tools = &tools;
  const auto with = chat_template.render(messages, options);
  return with && (!without || *with != *without);
}

tl::unexpected<Error> refused(std::string_view param, std::string message) {
  return fail(Error{ErrorCode::kInvalid, std::move(message), std::string(param)});
}

}  // namespace

Result<ToolReading> ToolReading::of(const ServeSettings& settings, std::string_view source,
                                    const ChatTemplate& chat_template, const ContentFormat& format,
                                    const json::object& variables) {
  ToolReading made;
  made.on_demand_ = settings.auto_tool_choice;
  made.shows_tools_ = shows_tools(chat_template, format, variables);
  if (settings.tool_call_parser == "auto") {
    made.calls_ = tools::format_of_template(source);
  } else {
    TRY(made.calls_, tools::tool_call_format(settings.tool_call_parser));
  }
  if (settings.reasoning_parser == "auto") {
    made.reasoning_ = tools::reasoning_of_template(source);
  } else if (!settings.reasoning_parser.empty()) {
    TRY(made.reasoning_, tools::reasoning_format(settings.reasoning_parser));
  }
  return made;
}

Result<void> ToolReading::check(const api::ToolFields& tools) const {
  if (!tools.may_be_called()) return {};
  if (!on_demand_ && !tools.demanded())
    return refused("tool_choice",
                   "tool_choice auto is off: the server was started with "
                   "--no-enable-auto-tool-choice");
  if (!shows_tools_)
    return refused("tools",
                   "the chat template does not show 'tools' to the model: it renders the same with "
                   "and without them; start the server with a --chat-template that does");
  if (calls_ == nullptr)
    return refused("tools",
                   "the chat template does not say in which form the model calls 'tools'; start "
                   "the server with --tool-call-parser");
  return {};
}

Result<std::optional<api::StructuredOutput>> ToolReading::demand(
    const api::ToolFields& tools) const {
  if (!tools.demanded()) return std::nullopt;
  const bool one = tools.choice == api::ToolChoice::kNamed || !tools.parallel;
  auto text =
      tools::required_calls(*calls_, *tools.list, tools.name, one ? 1 : tools::CallLimits().calls);
  if (!text) return refused("tool_choice", std::move(text).error().message);
  api::StructuredOutput output;
  output.kind = api::StructuredOutput::Kind::kDemandedCalls;
  output.text = *std::move(text);
  output.blanks = api::StructuredOutput::Blanks::kNone;
  output.param = "tools";
  return output;
}

tools::ParserForm ToolReading::form(const api::ToolFields& tools, std::string_view prompt) const {
  tools::ParserForm form;
  if (tools.may_be_called()) {
    form.calls = calls_;
    form.tools = tools.list;
  }
  if (tools.demanded()) return form;  // from its first byte on
  form.reasoning = reasoning_;
  form.in_reasoning = reasoning_ != nullptr && tools::opens_reasoning(*reasoning_, prompt);
  return form;
}

bool has_special_markers(const tools::ParserForm& form, const Tokenizer& tokenizer) {
  const auto has_special = [&](std::string_view marker) {
    return std::ranges::any_of(tokenizer.encode(marker, {.add_special_tokens = false}),
                               [&](TokenId id) { return tokenizer.is_special(id); });
  };
  if (form.reasoning != nullptr &&
      (has_special(form.reasoning->begin) || has_special(form.reasoning->end)))
    return true;
  return form.calls != nullptr &&
         std::ranges::any_of(form.calls->markers, [&](const tools::CallMarker& marker) {
           return has_special(marker.begin) || (!marker.end.empty() && has_special(marker.end));
         });
}

}  // namespace saccade::serve
