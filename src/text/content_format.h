// Whether a chat template reads a message's content as a list of parts or as one string.
#pragma once

#include "base/json.h"
#include "text/chat_template.h"

namespace saccade {

// Told by rendering a user's message both ways: false when the template shows the text of a string
// and not that of a part (templates that say '...' + message['content']). `variables` as in
// ChatTemplateOptions.
bool takes_content_parts(const ChatTemplate& chat_template, const json::object& variables);

}  // namespace saccade
