#include "tools/python_literal.h"

#include <charconv>
#include <set>

#include "base/json.h"
#include "base/text/utf8.h"
#include "tools/json_scanner.h"

namespace saccade::tools {
namespace {

bool is_decimal(char c) { return c >= '0' && c <= '9'; }
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
      case '[':
        return list(out, ']', depth);
      case '(':
        return list(out, ')', depth);
      case '{':
        return braces(out, depth);
      default:
        break;
    }
    if (!at_string()) return number_or_name(out);
    std::string text;
    if (!strings(text)) return false;
    json::append_quoted(out, text);
    return true;
  }

  // A tuple is a list; in parentheses and without a comma a value is itself.
  bool list(std::string& out, char end, int depth) {
    text_.remove_prefix(1);
    const std::size_t begin = out.size();
    out += '[';
    bool comma = false;
    int count = 0;
    for (;; ++count) {
      skip_space();
      if (take(end)) break;
      if (count > 0) out += ", ";
      if (!value(out, depth + 1)) return false;
      skip_space();
      if (take(',')) {
        comma = true;
      } else if (!text_.starts_with(end)) {
        return false;
      }
    }
    if (end == ')' && count == 1 && !comma) {
      out.erase(begin, 1);
    } else {
      out += ']';
    }
    return true;
  }

  // A dictionary, or a set, which is a list. Keys become strings, as in Python's json.
  bool braces(std::string& out, int depth) {
    text_.remove_prefix(1);
    const std::size_t begin = out.size();
    out += '{';
    bool is_set = false;
    for (bool first = true;; first = false) {
      skip_space();
      if (take('}')) break;
      if (!first) out += ", ";
      std::string element;
      if (!value(element, depth + 1)) return false;
      skip_space();
      if (first) is_set = !text_.starts_with(':');
      if (is_set) {
        out += element;
      } else {
        if (element.starts_with('{') || element.starts_with('[') || !take(':')) return false;
        if (element.starts_with('"')) {
          out += element;
        } else {
          json::append_quoted(out, element);
        }
        out += ": ";
        if (!value(out, depth + 1)) return false;
        skip_space();
      }
      if (!take(',') && !text_.starts_with('}')) return false;
    }
    if (is_set) out[begin] = '[';
    out += is_set ? ']' : '}';
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
    } else {
      const std::string number = json_number(found);
      if (!is_json_number(number)) return false;
      out += number;
    }
    return true;
  }

  // Python's number, written as JSON has it: 1_000, +1, .5, 2., 0x1f; and 07, which models write in
  // dates. What is none comes back as no number.
  static std::string json_number(std::string_view text) {
    std::string out;
    if (text.starts_with('-')) out = "-";
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (text.starts_with("0x") || text.starts_with("0X")) {
      std::uint64_t number = 0;
      const char* end = text.data() + text.size();
      const auto read = std::from_chars(text.data() + 2, end, number, 16);
      if (read.ec != std::errc() || read.ptr != end) return "";
      return out + std::to_string(number);
    }
    while (text.size() > 1 && text[0] == '0' && is_decimal(text[1])) text.remove_prefix(1);
    if (text.starts_with('.')) out += '0';
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool digit_before = i > 0 && is_decimal(text[i - 1]);
      const bool digit_after = i + 1 < text.size() && is_decimal(text[i + 1]);
      if (text[i] == '_' && digit_before && digit_after) continue;
      out += text[i];
      if (text[i] == '.' && digit_before && !digit_after) out += '0';
    }
    return out;
  }

  static bool is_json_number(std::string_view text) {
    JsonScanner scanner(1);
    for (const char c : text) {
      if (scanner.put(c) != Step::kMore) return false;
    }
    return scanner.put(' ') == Step::kDoneBefore;
  }

  bool at_string() const {
    std::size_t prefix = 0;
    if (text_.starts_with('r') || text_.starts_with('R') || text_.starts_with('u')) prefix = 1;
    return text_.size() > prefix && (text_[prefix] == '"' || text_[prefix] == '\'');
  }

  // One after the other they are one.
  bool strings(std::string& out) {
    do {
      if (!string(out)) return false;
      skip_space();
    } while (at_string());
    return true;
  }

  bool string(std::string& out) {
    const bool raw = text_.starts_with('r') || text_.starts_with('R');
    if (raw || text_.starts_with('u')) text_.remove_prefix(1);
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
      if (c != '\\') {
        out.push_back(c);
      } else if (raw) {
        out.push_back(c);
        if (text_.empty()) return false;
        out.push_back(text_.front());
        text_.remove_prefix(1);
      } else if (!escape(out)) {
        return false;
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
