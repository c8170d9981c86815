#include <optional>

#include "tools/call_body.h"
#include "tools/json_scanner.h"
#include "tools/python_literal.h"

namespace saccade::tools {
namespace {

const json::object* member_object(const json::object* from, std::string_view name) {
  const json::value* found = from == nullptr ? nullptr : json::find(*from, name);
  return found == nullptr ? nullptr : found->if_object();
}

// The schema of a parameter of a function of `tools`; null: nobody says.
const json::object* schema_of(const json::array* tools, std::string_view function,
                              std::string_view key) {
  if (tools == nullptr) return nullptr;
  for (const json::value& tool : *tools) {
    const json::object* inner = member_object(tool.if_object(), "function");
    const json::value* name = inner == nullptr ? nullptr : json::find(*inner, "name");
    if (name == nullptr || !name->is_string() || name->get_string() != function) continue;
    return member_object(member_object(member_object(inner, "parameters"), "properties"), key);
  }
  return nullptr;
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
  XmlBody(const json::array* tools, bool in_function, const CallLimits& limits)
      : tools_(tools), limits_(limits), at_(in_function ? At::kFunction : At::kOpen) {}

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

 private:
  enum class At { kOpen, kFunction, kBetween, kKey, kValue };

  // White space, and one of the tags that may stand here.
  Step in_tag(char byte, CallWriter& writer, AnswerEvents& events) {
    if (text_.empty() && is_space(byte)) return Step::kMore;
    constexpr std::string_view kFunction = "<function=";
    constexpr std::string_view kParameter = "<parameter=";
    constexpr std::string_view kEnd = "</function>";
    text_.push_back(byte);
    const auto begins = [&](std::string_view tag) { return tag.starts_with(text_); };
    if (at_ == At::kOpen) {
      if (!begins(kFunction)) return Step::kBad;
      if (text_ == kFunction) go(At::kFunction);
      return Step::kMore;
    }
    if (!begins(kParameter) && !begins(kEnd)) return Step::kBad;
    if (text_ == kParameter) go(At::kKey);
    if (text_ != kEnd) return Step::kMore;
    if (!writer.arguments(parameters_ == 0 ? "{}" : "}", events)) return Step::kBad;
    writer.end(events);
    return Step::kDone;
  }

  Step end_name(CallWriter& writer, AnswerEvents& events) {
    if (text_.empty()) return Step::kBad;
    if (at_ == At::kFunction) {
      if (!writer.begin(text_, events)) return Step::kBad;
      function_ = text_;
      go(At::kBetween);
    } else {
      key_ = text_;
      go(At::kValue);
    }
    return Step::kMore;
  }

  Step in_value(char byte, CallWriter& writer, AnswerEvents& events) {
    constexpr std::string_view kEnd = "</parameter>";
    if (text_.size() == limits_.argument_bytes) return Step::kBad;
    text_.push_back(byte);
    if (!text_.ends_with(kEnd)) return Step::kMore;
    text_.resize(text_.size() - kEnd.size());
    std::string fragment = parameters_++ == 0 ? "{" : ", ";
    json::append_quoted(fragment, key_);
    fragment += ": ";
    fragment += value_text(text_, schema_of(tools_, function_, key_), limits_.depth);
    go(At::kBetween);
    return writer.arguments(fragment, events) ? Step::kMore : Step::kBad;
  }

  void go(At at) {
    at_ = at;
    text_.clear();
  }

  const json::array* tools_;
  CallLimits limits_;
  At at_;
  std::string text_;  // of the tag, name or value being read
  std::string function_;
  std::string key_;
  int parameters_ = 0;
};

}  // namespace

std::unique_ptr<CallBody> xml_body(const json::array* tools, bool in_function,
                                   const CallLimits& limits) {
  return std::make_unique<XmlBody>(tools, in_function, limits);
}

}  // namespace saccade::tools
