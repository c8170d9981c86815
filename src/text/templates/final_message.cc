#include "text/templates/final_message.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <random>
#include <ranges>

#include "text/unicode/python_text.h"

namespace saccade {
namespace {

// Nobody who writes a conversation knows it.
std::string fresh_mark() {
  std::random_device bits;
  return fmt::format("CONTINUED{:08x}{:08x}{:08x}", bits(), bits(), bits());
}

std::string_view without_blanks(std::string_view text, bool left) {
  return jinja::strip(text, std::nullopt, left, true);
}

tl::unexpected<Error> refused(std::string_view why) {
  return fail(Error{ErrorCode::kInvalid, fmt::format("continue_final_message is set, and {}", why),
                    "continue_final_message"});
}

// The string that the mark goes behind; null where there is none.
json::string* final_text(json::array& messages) {
  if (messages.empty() || !messages.back().is_object()) return nullptr;
  json::value* content = messages.back().get_object().if_contains("content");
  if (content == nullptr) return nullptr;
  if (content->is_string()) return &content->get_string();
  if (!content->is_array()) return nullptr;
  for (json::value& part : content->get_array() | std::views::reverse) {
    json::value* text = part.is_object() ? part.get_object().if_contains("text") : nullptr;
    if (text != nullptr && text->is_string()) return &text->get_string();
  }
  return nullptr;
}

}  // namespace

Result<FinalMessage> FinalMessage::mark(json::array& messages) {
  json::string* text = final_text(messages);
  if (text == nullptr) return refused("the final message has no text");
  FinalMessage made;
  made.text_ = std::string(*text);
  made.mark_ = fresh_mark();
  text->append(made.mark_);
  // Tells a template that keeps the end's white space from one that takes it off.
  text->push_back(' ');
  return made;
}

Result<std::string> FinalMessage::cut(std::string rendered) const {
  const std::size_t at = rendered.rfind(mark_);
  const auto shown = std::string_view(rendered).substr(0, at);
  if (at == std::string::npos || shown.find(without_blanks(text_, true)) == std::string_view::npos)
    return refused("the template does not show the final message's text as it is");
  const bool kept = std::string_view(rendered).substr(at + mark_.size()).starts_with(' ');
  rendered.resize(kept ? at : without_blanks(shown, false).size());
  return rendered;
}

}  // namespace saccade
