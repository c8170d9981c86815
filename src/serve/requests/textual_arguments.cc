#include "serve/requests/textual_arguments.h"

#include <boost/json/array.hpp>

namespace saccade::serve {
namespace {

// Calls `visit(i, j, arguments)` for call `j` of message `i` whose arguments are text.
template <typename Messages, typename Visit>
void for_each_text(Messages& messages, const Visit& visit) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto* const message = messages[i].if_object();
    auto* const member = message ? message->if_contains("tool_calls") : nullptr;
    auto* const calls = member ? member->if_array() : nullptr;
    for (std::size_t j = 0; calls != nullptr && j < calls->size(); ++j) {
      auto* const call = (*calls)[j].if_object();
      auto* const function = call ? call->if_contains("function") : nullptr;
      auto* const inner = function ? function->if_object() : nullptr;
      auto* const arguments = inner ? inner->if_contains("arguments") : nullptr;
      if (arguments != nullptr && arguments->is_string()) visit(i, j, *arguments);
    }
  }
}

template <typename Change>
json::array changed(json::array messages, const Change& change) {
  for_each_text(messages,
                [&](std::size_t, std::size_t, json::value& arguments) { change(arguments); });
  return messages;
}

}  // namespace

std::optional<TextualArguments> TextualArguments::in(const json::array& messages) {
  std::optional<TextualArguments> found;
  for_each_text(messages, [&](std::size_t i, std::size_t j, const json::value&) {
    if (found) return;
    found.emplace();
    found->where_ = fmt::format("messages[{}].tool_calls[{}]", i, j);
  });
  return found;
}

Result<std::string> TextualArguments::shown(Result<std::string> rendered,
                                            const json::array& messages,
                                            const Render& render) const {
  const auto refused = [&](const std::string& why) {
    return fail(Error{
        ErrorCode::kInvalid,
        fmt::format("{}: 'arguments' is no JSON object, and the chat template {}", where_, why),
        "messages"});
  };
  if (!rendered) {
    const auto without = [](json::value& arguments) { arguments = json::object(); };
    if (!render(changed(messages, without))) return rendered;
    return refused("takes no other: " + rendered.error().message);
  }
  const auto other = [](json::value& arguments) { arguments.get_string().append("."); };
  const Result<std::string> otherwise = render(changed(messages, other));
  if (!otherwise || *otherwise != *rendered) return rendered;
  return refused("leaves out any other");
}

}  // namespace saccade::serve
