// Whether a chat template reads a message's content as one string or as a list of parts: told, role
// by role, by rendering a probe both ways.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/templates/chat_template.h"

namespace saccade {

// What became of a probe's text. A list printed as it stands shows nothing: that is no prompt.
enum class Shown { kText, kNothing, kRefused };

struct RoleForms {
  Shown as_string = Shown::kRefused;
  Shown as_parts = Shown::kRefused;

  // The template renders such a message in one form at least, and its text in none.
  bool drops_text() const;
  // Refused in both forms: what an actual conversation makes of it has to be looked at.
  bool unknown() const { return as_string == Shown::kRefused && as_parts == Shown::kRefused; }
};

// Immutable; any thread.
class ContentFormat {
 public:
  static constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user",
                                                             "assistant", "tool"};

  // `variables` as in ChatTemplateOptions. kInvalid: for conversations of a few words the template
  // takes more steps than any that is published, and would hold up whoever waits for it.
  static Result<ContentFormat> of(const ChatTemplate& chat_template, const json::object& variables);

  // Of one of kRoles, in a conversation with tools or without: Llama 3.2 Vision's template shows
  // parts, and prints the list itself where it puts tools before the first of them.
  const RoleForms& forms(std::string_view role, bool tools = false) const;

  // What stands for a part that is no text in a template of strings: of `type`, and of an image its
  // number among all messages' images.
  using Placeholder = std::function<std::string(std::string_view type, int image)>;

  // Content stays in the form that it has where the template shows that form's text, and takes the
  // other where only that is shown. kInvalid names the role of which no form is.
  Result<void> arrange(json::array& messages, const Placeholder& placeholder,
                       bool tools = false) const;

  // For roles that are unknown(): kInvalid where a message's text is not in what was rendered. For
  // roles that are not in kRoles the conversation is rendered once more, with marks for their
  // texts: a short one may stand in a prompt that leaves it out.
  using Render = std::function<Result<std::string>(const json::array& messages)>;
  Result<void> check(const json::array& messages, std::string_view rendered,
                     const Render& render) const;

 private:
  std::array<RoleForms, kRoles.size()> forms_;
  std::array<RoleForms, kRoles.size()> forms_with_tools_;
};

}  // namespace saccade
