// What a line typed at the prompt means. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade::chat {

// "/image a.png": the word behind the slash, and what follows it. Else the text is a question; one
// that begins with a slash is written "//...".
struct ChatLine {
  std::string command;  // empty: a question
  std::string text;     // the question, or the command's argument; no blanks around it
};

// kInvalid for a command that is not known, with those that look like it.
Result<ChatLine> parse_chat_line(std::string_view line);

// A line for each command, for /help.
std::string command_help();

}  // namespace saccade::chat
