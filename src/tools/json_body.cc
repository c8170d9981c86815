#include <optional>

#include "tools/call_body.h"
#include "tools/json_scanner.h"

namespace saccade::tools {
namespace {

constexpr std::size_t kMaxKeyBytes = 256;

// {"name": "f", "arguments": {...}} from its brace on. Arguments that come after the name are
// written as they come.
class JsonCall {
 public:
  JsonCall(bool bare, const CallLimits& limits)
      : bare_(bare), limits_(limits), scanner_(limits.depth) {}

  Step put(char byte, CallWriter& writer, AnswerEvents& events) {
    switch (at_) {
      case At::kOpen:
        at_ = At::kFirstKey;
        return byte == '{' ? Step::kMore : Step::kBad;
      case At::kFirstKey:
        if (byte == '}') return close(writer, events);
        [[fallthrough]];
      case At::kKey:
        if (is_space(byte)) return Step::kMore;
        if (byte != '"') return Step::kBad;
        start_value(At::kInKey);
        [[fallthrough]];
      case At::kInKey:
        return in_key(byte);
      case At::kColon:
        if (is_space(byte)) return Step::kMore;
        at_ = At::kValueStart;
        return byte == ':' ? Step::kMore : Step::kBad;
      case At::kValueStart:
        if (is_space(byte)) return Step::kMore;
        if (!start_member(byte, writer, events)) return Step::kBad;
        [[fallthrough]];
      case At::kInValue:
        return in_value(byte, writer, events);
      case At::kAfterValue:
        if (is_space(byte)) return Step::kMore;
        if (byte == ',') {
          at_ = At::kKey;
          return Step::kMore;
        }
        return byte == '}' ? close(writer, events) : Step::kBad;
    }
    return Step::kBad;
  }

 private:
  enum class At { kOpen, kFirstKey, kKey, kInKey, kColon, kValueStart, kInValue, kAfterValue };
  enum class Member { kOther, kName, kArguments };

  void start_value(At at) {
    at_ = at;
    text_.clear();
    scanner_ = JsonScanner(limits_.depth);
  }

  static std::optional<std::string> decoded(std::string_view quoted) {
    auto value = json::parse(quoted);
    if (!value || !value->is_string()) return std::nullopt;
    return std::string(value->get_string());
  }

  Step in_key(char byte) {
    if (text_.size() == kMaxKeyBytes) return Step::kBad;
    const Step step = scanner_.put(byte);
    if (step == Step::kBad) return step;
    text_.push_back(byte);
    if (step == Step::kMore) return step;
    const auto key = decoded(text_);
    if (!key) return Step::kBad;
    member_ = *key == "name"                                ? Member::kName
              : *key == "arguments" || *key == "parameters" ? Member::kArguments
                                                            : Member::kOther;
    if ((member_ == Member::kName && name_) || (member_ == Member::kArguments && has_arguments_))
      return Step::kBad;
    at_ = At::kColon;
    return Step::kMore;
  }

  bool start_member(char byte, CallWriter& writer, AnswerEvents& events) {
    start_value(At::kInValue);
    streams_ = false;
    if (member_ == Member::kName) return byte == '"';
    if (member_ == Member::kOther) return true;
    has_arguments_ = true;
    if (byte != '{') return byte == '"' || byte == 'n';  // as text, or null
    if (!name_) return true;
    streams_ = writer.begin(*name_, events);
    return streams_;
  }

  Step in_value(char byte, CallWriter& writer, AnswerEvents& events) {
    const Step step = scanner_.put(byte);
    if (step == Step::kBad) return step;
    const bool taken = step != Step::kDoneBefore;
    if (streams_) {
      if (!writer.arguments({&byte, 1}, events)) return Step::kBad;
    } else if (member_ != Member::kOther && taken) {
      if (text_.size() == limits_.argument_bytes) return Step::kBad;
      text_.push_back(byte);
    }
    if (step == Step::kMore) return step;
    at_ = At::kAfterValue;
    if (!end_member(writer, events)) return Step::kBad;
    return taken ? Step::kMore : put(byte, writer, events);
  }

  bool end_member(CallWriter& writer, AnswerEvents& events) {
    if (member_ == Member::kName) {
      name_ = decoded(text_);
      return name_.has_value();
    }
    if (member_ != Member::kArguments || streams_) return true;
    if (text_ == "null") {
      arguments_ = "{}";
    } else if (text_.front() == '"') {  // JSON in a string
      const auto text = decoded(text_);
      if (!text) return false;
      const auto value = json::parse(*text, static_cast<std::size_t>(limits_.depth));
      if (!value || !value->is_object()) return false;
      arguments_ = *text;
    } else {
      arguments_ = text_;
    }
    return !name_ || write_whole(writer, events);
  }

  bool write_whole(CallWriter& writer, AnswerEvents& events) {
    return writer.begin(*name_, events) && writer.arguments(arguments_, events);
  }

  Step close(CallWriter& writer, AnswerEvents& events) {
    if (!name_ || (bare_ && !has_arguments_)) return Step::kBad;
    if (!writer.open()) {
      if (!has_arguments_) arguments_ = "{}";
      if (!write_whole(writer, events)) return Step::kBad;
    }
    writer.end(events);
    return Step::kDone;
  }

  bool bare_;
  CallLimits limits_;
  At at_ = At::kOpen;
  JsonScanner scanner_;
  Member member_ = Member::kOther;
  std::string text_;  // of the key or value being read, where it is needed
  std::optional<std::string> name_;
  bool has_arguments_ = false;
  bool streams_ = false;   // the value being read goes out as it comes
  std::string arguments_;  // when they do not
};

class JsonBody : public CallBody {
 public:
  JsonBody(JsonForm form, bool bare, const CallLimits& limits)
      : form_(form), bare_(bare), limits_(limits), call_(bare, limits) {}

  Step put(char byte, CallWriter& writer, AnswerEvents& events) override {
    if (at_ == At::kInCall) {
      const Step step = call_.put(byte, writer, events);
      if (step != Step::kDone) return step;
      if (!in_list_ && form_ == JsonForm::kObject) return Step::kDone;
      at_ = At::kAfterCall;
      return Step::kMore;
    }
    if (is_space(byte)) return Step::kMore;
    if (at_ == At::kAfterCall) return after_call(byte, writer, events);
    if (at_ == At::kOpen && byte == '[' && form_ == JsonForm::kList) {
      in_list_ = true;
      at_ = At::kNextCall;
      return Step::kMore;
    }
    return start_call(byte, writer, events);
  }

  bool complete() const override { return at_ == At::kAfterCall && !in_list_; }

 private:
  enum class At { kOpen, kNextCall, kInCall, kAfterCall };

  Step start_call(char byte, CallWriter& writer, AnswerEvents& events) {
    at_ = At::kInCall;
    call_ = JsonCall(bare_, limits_);
    return call_.put(byte, writer, events);
  }

  Step after_call(char byte, CallWriter& writer, AnswerEvents& events) {
    if (in_list_) {
      if (byte == ']') return Step::kDone;
      at_ = At::kNextCall;
      return byte == ',' ? Step::kMore : Step::kBad;
    }
    if (byte == '{') return start_call(byte, writer, events);
    if (byte != ';') return Step::kDoneBefore;
    at_ = At::kNextCall;
    return Step::kMore;
  }

  JsonForm form_;
  bool bare_;
  CallLimits limits_;
  JsonCall call_;
  At at_ = At::kOpen;
  bool in_list_ = false;
};

// NAME{...}, NAME[ARGS]{...}, NAME[CALL_ID]ID[ARGS]{...}; or a list.
class MistralBody : public CallBody {
 public:
  explicit MistralBody(const CallLimits& limits)
      : limits_(limits), list_(JsonForm::kList, false, limits), scanner_(limits.depth) {}

  Step put(char byte, CallWriter& writer, AnswerEvents& events) override {
    if (at_ == At::kOpen) {
      if (is_space(byte)) return Step::kMore;
      at_ = byte == '[' || byte == '{' ? At::kList : At::kHead;
    }
    if (at_ == At::kList) return list_.put(byte, writer, events);
    if (at_ == At::kHead) {
      if (byte != '{') {
        if (head_.size() == 2 * limits_.name_bytes) return Step::kBad;
        head_.push_back(byte);
        return Step::kMore;
      }
      const auto name = name_of(head_);
      if (!name && trimmed(head_).ends_with('[')) return in_list_at_last(writer, events);
      if (!name || !writer.begin(*name, events)) return Step::kBad;
      at_ = At::kArguments;
    }
    const Step step = scanner_.put(byte);
    if (step == Step::kBad || !writer.arguments({&byte, 1}, events)) return Step::kBad;
    if (step == Step::kDone) writer.end(events);
    return step;
  }

 private:
  enum class At { kOpen, kList, kHead, kArguments };

  // Some models say a few words before the list.
  Step in_list_at_last(CallWriter& writer, AnswerEvents& events) {
    at_ = At::kList;
    list_.put('[', writer, events);
    return list_.put('{', writer, events);
  }

  static std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
  }

  static std::optional<std::string_view> name_of(std::string_view head) {
    constexpr std::string_view kArguments = "[ARGS]";
    head = trimmed(head);
    if (head.ends_with(kArguments)) {
      head.remove_suffix(kArguments.size());
      head = trimmed(head.substr(0, head.find("[CALL_ID]")));
    }
    for (const char c : head) {
      if (is_space(c) || c == '[' || c == ']' || c == '"') return std::nullopt;
    }
    return head;
  }

  CallLimits limits_;
  JsonBody list_;
  JsonScanner scanner_;
  At at_ = At::kOpen;
  std::string head_;
};

}  // namespace

std::unique_ptr<CallBody> json_body(JsonForm form, bool bare, const CallLimits& limits) {
  return std::make_unique<JsonBody>(form, bare, limits);
}

std::unique_ptr<CallBody> mistral_body(const CallLimits& limits) {
  return std::make_unique<MistralBody>(limits);
}

}  // namespace saccade::tools
