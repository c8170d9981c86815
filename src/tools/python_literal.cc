#include "tools/python_literal.h"

#include <charconv>
#include <set>

#include "base/json.h"
#include "base/utf8.h"
#include "tools/json_scanner.h"

namespace saccade::tools {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Recursive descent; every function is false where the text is something else.
class Reader {
 public:
  Reader(std::string_view text, int max_depth) : text_(text), max_depth_(max_depth) {}

  bool keywords(std::string& out) {
    out += '{';
    std::set<std::string_view> seen;
    for (skip_space(); !text_.empty(); skip_space()) {
      const std::string_view key = word();
      skip_space();
      if (key.empty() || !seen.insert(key).second || !take('=')) return false;
      if (seen.size() > 1) out += ", ";
      json::append_quoted(out, key);
      out += ": ";
      if (!value(out, 1)) return false;
      skip_space();
      if (!text_.empty() && !take(',')) return false;
    }
    out += '}';
    return true;
  }

  bool whole_value(std::string& out) {
    if (!value(out, 1)) return false;
    skip_space();
    return text_.empty();
  }

 private:
  void skip_space() {
    while (!text_.empty() && is_space(text_.front())) text_.remove_prefix(1);
  }
  bool take(char c) {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view word() {
    std::size_t size = 0;
    while (size < text_.size() && is_word(text_[size])) ++size;
    const std::string_view found = text_.substr(0, size);
    text_.remove_prefix(size);
    return found;
  }

  bool value(std::string& out, int depth) {
    skip_space();
    if (text_.empty() || depth > max_depth_) return false;
    switch (text_.front()) {
      case '"':
      case '\'': {
        std::string text;
        if (!string(text)) return false;
        json::append_quoted(out, text);
        return true;
      }
      case '[':
        return list(out, ']', depth);
      case '(':
        return list(out, ')', depth);
      case '{':
        return dictionary(out, depth);
      default:
        return number_or_name(out);
    }
  }

  bool list(std::string& out, char end, int depth) {
    text_.remove_prefix(1);
    out += '[';
    for (bool first = true;; first = false) {
      skip_space();
      if (take(end)) break;
      if (!first) out += ", ";
      if (!value(out, depth + 1)) return false;
      skip_space();
      if (!take(',') && !text_.starts_with(end)) return false;
    }
    out += ']';
    return true;
  }

  bool dictionary(std::string& out, int depth) {
    text_.remove_prefix(1);
    out += '{';
    for (bool first = true;; first = false) {
      skip_space();
      if (take('}')) break;
      if (!first) out += ", ";
      std::string key;
      if (!string(key)) return false;
      json::append_quoted(out, key);
      out += ": ";
      skip_space();
      if (!take(':') || !value(out, depth + 1)) return false;
      skip_space();
      if (!take(',') && !text_.starts_with('}')) return false;
    }
    out += '}';
    return true;
  }

  bool number_or_name(std::string& out) {
    std::size_t size = 0;
    while (size < text_.size() &&
           (is_word(text_[size]) || text_[size] == '.' || text_[size] == '-' || text_[size] == '+'))
      ++size;
    const std::string_view found = text_.substr(0, size);
    text_.remove_prefix(size);
    if (found == "True" || found == "true") {
      out += "true";
    } else if (found == "False" || found == "false") {
      out += "false";
    } else if (found == "None" || found == "null") {
      out += "null";
    } else if (is_json_number(found)) {
      out += found;
    } else {
      return false;
    }
    return true;
  }

  static bool is_json_number(std::string_view text) {
    JsonScanner scanner(1);
    for (const char c : text) {
      if (scanner.put(c) != Step::kMore) return false;
    }
    return scanner.put(' ') == Step::kDoneBefore;
  }

  bool string(std::string& out) {
    if (text_.empty() || (text_.front() != '"' && text_.front() != '\'')) return false;
    const char quote = text_.front();
    const std::string triple(3, quote);
    const bool is_triple = text_.starts_with(triple);
    text_.remove_prefix(is_triple ? 3 : 1);
    while (!text_.empty()) {
      if (is_triple ? text_.starts_with(triple) : text_.front() == quote) {
        text_.remove_prefix(is_triple ? 3 : 1);
        return true;
      }
      const char c = text_.front();
      text_.remove_prefix(1);
      if (c == '\\') {
        if (!escape(out)) return false;
      } else {
        out.push_back(c);
      }
    }
    return false;
  }

  // After the backslash. What is no escape keeps it, as in Python.
  bool escape(std::string& out) {
    if (text_.empty()) return false;
    const char c = text_.front();
    text_.remove_prefix(1);
    constexpr std::string_view kLetters = "nrtbfva0\\'\"";
    constexpr std::string_view kMeant("\n\r\t\b\f\v\a\0\\'\"", 11);
    if (const std::size_t at = kLetters.find(c); at != std::string_view::npos) {
      out.push_back(kMeant[at]);
      return true;
    }
    if (c == '\n') return true;
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      out.push_back('\\');
      out.push_back(c);
      return true;
    }
    std::uint32_t code = 0;
    if (text_.size() < digits) return false;
    const char* end = text_.data() + digits;
    if (std::from_chars(text_.data(), end, code, 16).ptr != end) return false;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    text_.remove_prefix(digits);
    append_utf8(out, code);
    return true;
  }

  std::string_view text_;
  int max_depth_;
};

}  // namespace

std::optional<std::string> keyword_arguments(std::string_view text, int max_depth) {
  std::string out;
  if (!Reader(text, max_depth).keywords(out)) return std::nullopt;
  return out;
}

std::optional<std::string> literal_as_json(std::string_view text, int max_depth) {
  std::string out;
  if (!Reader(text, max_depth).whole_value(out)) return std::nullopt;
  return out;
}

}  // namespace saccade::tools
