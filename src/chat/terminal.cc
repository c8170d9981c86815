#include "chat/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>

#include "base/text/utf8.h"

namespace saccade::chat {
namespace {

constexpr int kAnswerMs = 300;  // what a terminal has to answer preview_question()

int columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void set_sigint(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  pthread_sigmask(how, &set, nullptr);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters too.
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      ++i;
    } else if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t') {
      out += text[i];
    }
  }
  return out;
}

constexpr char kEndOfInput = 4;  // Ctrl-D

class Terminal::Raw {
 public:
  Raw() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL | BRKINT | INPCK | ISTRIP);
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | ISIG | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~Raw() { tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

 private:
  termios before_{};
};

Terminal::Terminal()
    : interactive_(isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1),
      styled_(isatty(STDOUT_FILENO) == 1) {
  std::setlocale(LC_CTYPE, "");  // wcwidth()
  set_sigint(SIG_BLOCK);
  if (interactive_) write("\x1b[?2004h");  // pastes are told from typing
}

Terminal::~Terminal() {
  if (interactive_) write("\x1b[?2004l");
}

std::optional<std::string> Terminal::read_line(const std::string& prompt) {
  if (interactive_) return read_edited(prompt);
  set_sigint(SIG_UNBLOCK);
  std::optional<std::string> line;
  for (;;) {
    const std::size_t end = input_.find('\n');
    if (end != std::string::npos) {
      line = input_.substr(0, end);
      input_.erase(0, end + 1);
      break;
    }
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (!input_.empty()) line = std::exchange(input_, {});
      break;
    }
    input_.append(bytes, static_cast<std::size_t>(got));
  }
  set_sigint(SIG_BLOCK);
  return line;
}

bool Terminal::next_byte(char& byte, int timeout_ms) const {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&in, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0 && ::read(STDIN_FILENO, &byte, 1) == 1;
}

std::optional<std::string> Terminal::read_edited(const std::string& prompt) {
  const Raw raw;
  for (;;) {
    draw(prompt);
    char byte = 0;
    if (!next_byte(byte, -1)) return std::nullopt;
    // Ctrl-D that came while no line was read: the terminal has put a zero in its place.
    if (byte == 0) byte = kEndOfInput;
    switch (editor_.feed(byte)) {
      case LineEditor::Outcome::kMore:
        break;
      case LineEditor::Outcome::kDiscarded:
        write("^C\r\n");
        break;
      case LineEditor::Outcome::kEnded:
        write("\r\n");
        return std::nullopt;
      case LineEditor::Outcome::kEntered:
        write("\r\n");
        return editor_.take();
    }
  }
}

void Terminal::draw(const std::string& prompt) const {
  const auto left = static_cast<int>(character_count(prompt));
  const LineView view = view_of(editor_.text(), editor_.cursor(), std::max(8, columns() - left));
  write(fmt::format("\r\x1b[1m{}\x1b[0m{}\x1b[K\r\x1b[{}C", prompt, view.text, left + view.cursor));
}

void Terminal::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Terminal::note(std::string_view text) const {
  write(styled_ ? fmt::format("\x1b[2m{}\x1b[0m\n", printable(text))
                : fmt::format("{}\n", printable(text)));
}

void Terminal::trouble(std::string_view text) const {
  write(styled_ ? fmt::format("\x1b[31m{}\x1b[0m\n", printable(text))
                : fmt::format("{}\n", printable(text)));
}

void Terminal::thought(std::string_view text) const {
  write(styled_ ? fmt::format("\x1b[2m{}\x1b[0m", printable(text)) : printable(text));
}

PreviewKind Terminal::preview_kind() {
  if (kind_) return *kind_;
  kind_ = PreviewKind::kNone;
  if (!interactive_) return *kind_;
  const Raw raw;
  write(preview_question());
  std::string answers;
  char byte = 0;
  while (!is_complete(answers) && answers.size() < 4096 && next_byte(byte, kAnswerMs))
    answers += byte;
  kind_ = chat::preview_kind(answers);
  return *kind_;
}

}  // namespace saccade::chat
