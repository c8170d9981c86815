#include "chat/line_editor.h"

#include <algorithm>
#include <cwchar>
#include <utility>

namespace saccade::chat {
namespace {

constexpr char kEscape = '\x1b';

constexpr char key(char letter) { return static_cast<char>(letter & 0x1f); }  // with Ctrl

// What sequences of arrows, Home and End end with, and the letter that does the same with Ctrl.
constexpr std::pair<char, char> kKeys[] = {{'A', 'P'}, {'B', 'N'}, {'C', 'F'}, {'D', 'B'},
                                           {'H', 'A'}, {'1', 'A'}, {'F', 'E'}, {'4', 'E'}};

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The character that begins at `at`; bytes that are no UTF-8 stand for themselves.
char32_t character_at(std::string_view text, std::size_t at, std::size_t size) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (size == 1) return first;
  char32_t code = first & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i)
    code = (code << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3f);
  return code;
}

int columns_of(char32_t code) {
  return code < 0x300 ? 1 : std::max(0, wcwidth(static_cast<wchar_t>(code)));
}

}  // namespace

LineEditor::Outcome LineEditor::feed(char byte) {
  if (!escape_.empty()) {
    escape_ += byte;
    // "ESC [ digits ; digits letter-or-~", "ESC O letter"; other two-byte ones are dropped.
    const bool opens = escape_.size() == 2 && (byte == '[' || byte == 'O');
    const bool inside = escape_.size() > 2 && (byte < '@' || byte > '~');
    if (!opens && !inside) sequence();
    return Outcome::kMore;
  }
  if (byte == kEscape) {
    escape_ = byte;
    return Outcome::kMore;
  }
  const auto value = static_cast<unsigned char>(byte);
  if (pasting_ && (byte == '\r' || byte == '\n')) {
    insert("\n");
    return Outcome::kMore;
  }
  if (value < 0x20 || value == 0x7f) return control(byte);
  insert(std::string_view(&byte, 1));
  return Outcome::kMore;
}

LineEditor::Outcome LineEditor::control(char byte) {
  switch (byte) {
    case '\r':
    case '\n':
      // A backslash at the end: the line goes on.
      if (text_.ends_with('\\')) {
        text_.back() = '\n';
        cursor_ = text_.size();
        return Outcome::kMore;
      }
      return Outcome::kEntered;
    case key('C'):
      text_.clear();
      cursor_ = 0;
      entry_ = history_.size();
      return Outcome::kDiscarded;
    case key('D'):
      if (text_.empty()) return Outcome::kEnded;
      erase(cursor_, after(cursor_));
      break;
    case key('H'):
    case '\x7f':
      erase(before(cursor_), cursor_);
      break;
    case key('A'):
      cursor_ = 0;
      break;
    case key('E'):
      cursor_ = text_.size();
      break;
    case key('B'):
      cursor_ = before(cursor_);
      break;
    case key('F'):
      cursor_ = after(cursor_);
      break;
    case key('K'):
      erase(cursor_, text_.size());
      break;
    case key('U'):
      erase(0, cursor_);
      break;
    case key('W'): {
      std::size_t begin = cursor_;
      while (begin > 0 && text_[begin - 1] == ' ') --begin;
      while (begin > 0 && text_[begin - 1] != ' ') --begin;
      erase(begin, cursor_);
      break;
    }
    case key('P'):
      recall(entry_ == 0 ? 0 : entry_ - 1);
      break;
    case key('N'):
      recall(entry_ + 1);
      break;
    case '\t':
      insert(" ");
      break;
    default:
      break;
  }
  return Outcome::kMore;
}

void LineEditor::sequence() {
  const std::string said = std::exchange(escape_, {});
  if (said == "\x1b[200~") pasting_ = true;
  if (said == "\x1b[201~") pasting_ = false;
  if (said == "\x1b[3~") erase(cursor_, after(cursor_));
  if (said.size() != 3 && said != "\x1b[1~" && said != "\x1b[4~") return;
  for (const auto& [end, letter] : kKeys)
    if (said[2] == end) control(key(letter));
}

std::string LineEditor::take() {
  if (!text_.empty() && (history_.empty() || history_.back() != text_)) history_.push_back(text_);
  entry_ = history_.size();
  written_.clear();
  cursor_ = 0;
  return std::exchange(text_, {});
}

void LineEditor::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::erase(std::size_t begin, std::size_t end) {
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

std::size_t LineEditor::before(std::size_t at) const {
  if (at > 0) --at;
  while (at > 0 && continues(text_[at])) --at;
  return at;
}

std::size_t LineEditor::after(std::size_t at) const {
  if (at < text_.size()) ++at;
  while (at < text_.size() && continues(text_[at])) ++at;
  return at;
}

void LineEditor::recall(std::size_t entry) {
  if (entry > history_.size() || entry == entry_) return;
  if (entry_ == history_.size()) written_ = text_;
  entry_ = entry;
  text_ = entry == history_.size() ? written_ : history_[entry];
  cursor_ = text_.size();
}

LineView view_of(std::string_view text, std::size_t cursor, int columns) {
  struct Shown {
    std::string_view text;
    int columns;
    bool before;  // the cursor
  };
  std::vector<Shown> shown;
  int left = 0;  // columns before the cursor
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && continues(text[end])) ++end;
    Shown one{text.substr(at, end - at), columns_of(character_at(text, at, end - at)), at < cursor};
    if (text[at] == '\n') one = {"⏎", 1, at < cursor};
    if (one.before) left += one.columns;
    shown.push_back(one);
    at = end;
  }
  LineView view;
  // Characters leave on the left until the cursor is inside.
  std::size_t first = 0;
  while (left >= columns && first < shown.size()) left -= shown[first++].columns;
  view.cursor = left;
  int used = 0;
  for (std::size_t i = first; i < shown.size() && used + shown[i].columns < columns; ++i) {
    view.text += shown[i].text;
    used += shown[i].columns;
  }
  return view;
}

}  // namespace saccade::chat
