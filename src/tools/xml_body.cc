#include <algorithm>
#include <cctype>

#include "tools/call_body.h"
#include "tools/json_scanner.h"
#include "tools/python_literal.h"

namespace saccade::tools {
namespace {

const json::object* member_object(const json::object* from, std::string_view name) {
  const json::value* found = from == nullptr ? nullptr : json::find(*from, name);
  return found == nullptr ? nullptr : found->if_object();
}

bool is_key(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

// A parameter is a string where its schema says only that, or nothing.
bool is_string_only(const json::object* schema) {
  if (schema == nullptr) return true;
  const json::value* type = json::find(*schema, "type");
  if (type == nullptr)
    return json::find(*schema, "anyOf") == nullptr && json::find(*schema, "oneOf") == nullptr &&
           json::find(*schema, "$ref") == nullptr;
  return type->is_string() && type->get_string() == "string";
}

// What stands between the tags as JSON. Some templates write values as Python does.
std::string value_text(std::string_view text, const json::object* schema, int depth) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (!is_string_only(schema)) {
    if (json::parse(text, static_cast<std::size_t>(depth))) return std::string(text);
    if (auto literal = literal_as_json(text, depth)) return *std::move(literal);
  }
  std::string quoted;
  json::append_quoted(quoted, text);
  return quoted;
}

class XmlBody : public CallBody {
 public:
  XmlBody(const json::array* tools, bool in_function, std::string_view end,
          const CallLimits& limits)
      : tools_(tools), end_(end), limits_(limits), at_(in_function ? At::kFunction : At::kOpen) {}

  Step put(char byte, CallWriter& writer, AnswerEvents& events) override {
    if (at_ == At::kValue) return in_value(byte, writer, events);
    if (at_ == At::kFunction || at_ == At::kKey) {
      if (byte == '>') return end_name(writer, events);
      if (byte == '<' || byte == '\n' || text_.size() == limits_.name_bytes) return Step::kBad;
      text_.push_back(byte);
      return Step::kMore;
    }
    return in_tag(byte, writer, events);
  }

  // A text without its closing quote, as a call in JSON is cut. What there is of a tag is nobody's.
  void cut(CallWriter& writer, AnswerEvents& events) override {
    if (!writer.open()) return;
    if (at_ == At::kValue) {
      std::string fragment = begin_value();
      json::append_quoted(fragment,
                          std::string_view(text_).substr(text_.starts_with('\n') ? 1 : 0));
      fragment.pop_back();
      if (!writer.arguments(fragment, events)) return;
    }
    writer.unsaid().clear();
  }

 private:
  enum class At { kOpen, kFunction, kBetween, kKey, kValue };

  static constexpr std::string_view kParameter = "<parameter=";
  static constexpr std::string_view kFunctionEnd = "</function>";

  // White space, and one of the tags that may stand here.
  Step in_tag(char byte, CallWriter& writer, AnswerEvents& events) {
    if (text_.empty() && is_space(byte)) return Step::kMore;
    constexpr std::string_view kFunction = "<function=";
    text_.push_back(byte);
    const auto begins = [&](std::string_view tag) { return tag.starts_with(text_); };
    if (at_ == At::kOpen) {
      if (!begins(kFunction)) return Step::kBad;
      if (text_ == kFunction) go(At::kFunction);
      return Step::kMore;
    }
    if (!begins(kParameter) && !begins(kFunctionEnd)) return Step::kBad;
    if (text_ == kParameter) go(At::kKey);
    return text_ == kFunctionEnd ? end_call(writer, events) : Step::kMore;
  }

  Step end_call(CallWriter& writer, AnswerEvents& events) {
    if (!writer.arguments(parameters_ == 0 ? "{}" : "}", events)) return Step::kBad;
    writer.end(events);
    return Step::kDone;
  }

  Step end_name(CallWriter& writer, AnswerEvents& events) {
    if (text_.empty()) return Step::kBad;
    if (at_ == At::kFunction) {
      if (!writer.begin(text_, events)) return Step::kBad;
      const json::object* const function = function_named(tools_, text_);
      properties_ = member_object(member_object(function, "parameters"), "properties");
      go(At::kBetween);
    } else {
      key_ = text_;
      go(At::kValue);
    }
    return Step::kMore;
  }

  // Models forget to close a parameter: the end of the whole call ends it too, and so does the next
  // parameter (see write_values).
  Step in_value(char byte, CallWriter& writer, AnswerEvents& events) {
    constexpr std::string_view kEnd = "</parameter>";
    if (text_.size() == limits_.argument_bytes) return Step::kBad;
    text_.push_back(byte);
    if (text_.ends_with(kEnd)) {
      text_.resize(text_.size() - kEnd.size());
      return write_values(writer, events) ? Step::kMore : Step::kBad;
    }
    if (end_.empty() || !text_.ends_with(end_)) return Step::kMore;
    auto left = std::string_view(text_).substr(0, text_.size() - end_.size());
    while (!left.empty() && is_space(left.back())) left.remove_suffix(1);
    if (!left.ends_with(kFunctionEnd)) return Step::kMore;
    text_.resize(left.size() - kFunctionEnd.size());
    return write_values(writer, events) ? end_call(writer, events) : Step::kBad;
  }

  std::string begin_value() {
    std::string fragment = parameters_++ == 0 ? "{" : ", ";
    json::append_quoted(fragment, key_);
    return fragment + ": ";
  }

  bool write_values(CallWriter& writer, AnswerEvents& events) {
    const std::string all = text_;
    std::string_view text = all;
    for (std::string_view next;; key_ = next) {
      std::string_view value = text;
      next = split(text, value);
      std::string fragment = begin_value();
      fragment += value_text(value, member_object(properties_, key_), limits_.depth);
      if (!writer.arguments(fragment, events)) return false;
      if (next.empty()) break;
    }
    go(At::kBetween);
    return true;
  }

  // The key of a parameter that begins a line of `text`, which becomes what follows it, and `value`
  // what stands before; empty: there is none. One that the function does not have is text.
  std::string_view split(std::string_view& text, std::string_view& value) const {
    for (std::size_t at = 0; (at = text.find(kParameter, at)) != std::string_view::npos; ++at) {
      if (at == 0 || text[at - 1] != '\n') continue;
      const std::size_t begin = at + kParameter.size();
      const std::size_t end = text.find('>', begin);
      if (end == std::string_view::npos) break;
      const std::string_view key = text.substr(begin, end - begin);
      if (properties_ != nullptr ? !properties_->contains(key) : !is_key(key)) continue;
      value = text.substr(0, at);
      text.remove_prefix(end + 1);
      return key;
    }
    return {};
  }

  void go(At at) {
    at_ = at;
    text_.clear();
  }

  const json::array* tools_;
  std::string_view end_;  // the marker behind the call; empty: none
  CallLimits limits_;
  At at_;
  std::string text_;                          // of the tag, name or value being read
  const json::object* properties_ = nullptr;  // of the function; null: nobody says
  std::string key_;
  int parameters_ = 0;
};

}  // namespace

const json::object* function_named(const json::array* tools, std::string_view name) {
  if (tools == nullptr) return nullptr;
  for (const json::value& tool : *tools) {
    const json::object* function = member_object(tool.if_object(), "function");
    const json::value* said = function == nullptr ? nullptr : json::find(*function, "name");
    if (said != nullptr && said->is_string() && said->get_string() == name) return function;
  }
  return nullptr;
}

std::unique_ptr<CallBody> xml_body(const json::array* tools, bool in_function, std::string_view end,
                                   const CallLimits& limits) {
  return std::make_unique<XmlBody>(tools, in_function, end, limits);
}

}  // namespace saccade::tools
