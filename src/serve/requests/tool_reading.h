// How a chat template shows tools to the model, and how the model's answer is read for calls of
// them.
#pragma once

#include <optional>
#include <string_view>

#include "api/requests/fields/structured_output.h"
#include "api/requests/fields/tool_fields.h"
#include "serve/settings.h"
#include "text/templates/chat_template.h"
#include "text/templates/content_format.h"
#include "text/tokenizer.h"
#include "tools/answer_parser.h"

namespace saccade::serve {

// Of one template. Immutable; any thread.
class ToolReading {
 public:
  // Of no template: nothing is shown and nothing read.
  ToolReading() = default;
  // The template is asked by rendering a probe with and without tools. kInvalid for a
  // --tool-call-parser or --reasoning-parser that is not known.
  static Result<ToolReading> of(const ServeSettings& settings, std::string_view source,
                                const ChatTemplate& chat_template, const ContentFormat& format,
                                const json::object& variables);

  // Tools that may be called are shown, and their calls understood: kInvalid says what is missing.
  Result<void> check(const api::ToolFields& tools) const;
  bool calls_tools() const { return shows_tools_ && calls_ != nullptr; }
  const tools::ToolCallFormat* calls() const { return calls_; }
  const tools::ReasoningFormat* reasoning() const { return reasoning_; }

  // What the answer is held to where a call is demanded: calls, and nothing else. kInvalid for a
  // form whose arguments are no JSON.
  Result<std::optional<api::StructuredOutput>> demand(const api::ToolFields& tools) const;

  // How the answer to `prompt` is read; without calls and reasoning all of it is content.
  tools::ParserForm form(const api::ToolFields& tools, std::string_view prompt) const;

 private:
  bool shows_tools_ = false;
  bool on_demand_ = true;  // tool_choice auto is taken
  const tools::ToolCallFormat* calls_ = nullptr;
  const tools::ReasoningFormat* reasoning_ = nullptr;
};

// Markers that decoding would leave out as special tokens.
bool has_special_markers(const tools::ParserForm& form, const Tokenizer& tokenizer);

}  // namespace saccade::serve
