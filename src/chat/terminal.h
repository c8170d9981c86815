// The terminal that a conversation is held on: lines read with keys and history, pictures shown.
#pragma once

#include <optional>
#include <string>

#include "chat/line_editor.h"
#include "chat/preview.h"

namespace saccade::chat {

// Without what would command a terminal (control characters, but for line ends and tabs): what a
// server or a model wrote is text.
std::string printable(std::string_view text);

// Input from what is no terminal is read line by line, without a prompt; output to what is none has
// neither colours nor pictures. One thread.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool interactive() const { return interactive_; }

  // Without its end; nullopt at the end of the input, or at Ctrl-D. While it waits, SIGINT ends a
  // program whose input is no terminal; of a terminal it is a key.
  std::optional<std::string> read_line(const std::string& prompt);

  void write(std::string_view text) const;  // as it is, at once
  void note(std::string_view text) const;   // a line beside the conversation, dim
  void trouble(std::string_view text) const;
  void thought(std::string_view text) const;  // dim, without a line end

  // Asks the terminal once what it can show.
  PreviewKind preview_kind();

 private:
  class Raw;  // keys one by one while it lives
  std::optional<std::string> read_edited(const std::string& prompt);
  void draw(const std::string& prompt) const;
  bool next_byte(char& byte, int timeout_ms) const;

  bool interactive_ = false;
  bool styled_ = false;
  LineEditor editor_;
  std::string input_;  // of what is no terminal: read and not given yet
  std::optional<PreviewKind> kind_;
};

}  // namespace saccade::chat
