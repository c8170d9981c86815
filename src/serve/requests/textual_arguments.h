// Calls in a conversation whose arguments are no JSON object: those of an answer that was cut off,
// which its client sends back as it came. The template gets them as text, which some show and some
// cannot.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace saccade::serve {

class TextualArguments {
 public:
  // Of messages as a template sees them, in the client's order; absent: there are none.
  static std::optional<TextualArguments> in(const json::array& messages);

  // What `render` made of these messages. Where they could not be rendered but for such arguments,
  // or are rendered alike whatever these say, kInvalid that names the message and the call.
  using Render = std::function<Result<std::string>(const json::array& messages)>;
  Result<std::string> shown(Result<std::string> rendered, const json::array& messages,
                            const Render& render) const;

 private:
  std::string where_;  // "messages[3].tool_calls[0]", of the first one
};

}  // namespace saccade::serve
