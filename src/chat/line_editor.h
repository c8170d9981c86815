// One line of input on a terminal in raw mode: what a key does to the text. Pure; terminal.cc reads
// the keys and draws. Not libedit's (3.1): it knows no bracketed paste, so that a text of several
// lines would be sent a line at a time, and wraps a long line instead of moving it sideways.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace saccade::chat {

class LineEditor {
 public:
  enum class Outcome {
    kMore,       // goes on
    kEntered,    // take() has the line
    kEnded,      // Ctrl-D on an empty line
    kDiscarded,  // Ctrl-C: the line is empty again
  };

  // One byte as the terminal sends it: UTF-8, control characters, escape sequences of arrows, Home,
  // End, Delete and bracketed paste (whose line ends are kept).
  Outcome feed(char byte);

  // The line; it becomes the newest of what the arrows up and down go through.
  std::string take();

  const std::string& text() const { return text_; }
  std::size_t cursor() const { return cursor_; }  // byte offset in text()

 private:
  Outcome control(char byte);
  void sequence();  // a complete escape sequence
  void insert(std::string_view text);
  void erase(std::size_t begin, std::size_t end);
  std::size_t before(std::size_t at) const;  // where the character before `at` begins
  std::size_t after(std::size_t at) const;
  void recall(std::size_t entry);

  std::string text_;
  std::size_t cursor_ = 0;
  std::string escape_;  // of a sequence that has not ended
  bool pasting_ = false;
  std::vector<std::string> history_;
  std::size_t entry_ = 0;  // of history_; its size: the line being written
  std::string written_;    // that line, while another is shown
};

// What of a line fits in `columns`, and at which of them its cursor stands: a long line is moved
// sideways, line ends are shown as "⏎". A wide character (wcwidth) takes two columns.
struct LineView {
  std::string text;
  int cursor = 0;
};
LineView view_of(std::string_view text, std::size_t cursor, int columns);

}  // namespace saccade::chat
