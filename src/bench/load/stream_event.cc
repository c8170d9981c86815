// First the scanner, a pull parser over the few members that matter; then the parser behind it.
#include "bench/load/stream_event.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "base/text/utf8.h"

namespace saccade::bench {
namespace {

// Walks over JSON text. Every method returns false when the text is not what it expects; the event
// is then the parser's business.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  bool at_end() {
    skip_blanks();
    return at_ == end_;
  }

  // The next byte after blanks, not consumed; 0 at the end.
  char peek() {
    skip_blanks();
    return at_ == end_ ? '\0' : *at_;
  }

  bool take(char c) {
    if (peek() != c || at_ == end_) return false;
    ++at_;
    return true;
  }

  // A string with its quotes taken off and its escapes left in.
  bool string(std::string_view& inside) {
    if (!take('"')) return false;
    const char* const begin = at_;
    while (true) {
      const void* found = std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_));
      if (found == nullptr) return false;
      const char* const quote = static_cast<const char*>(found);
      const char* slash = quote;
      while (slash > begin && slash[-1] == '\\') --slash;
      at_ = quote + 1;
      if ((quote - slash) % 2 == 0) {
        inside = {begin, static_cast<std::size_t>(quote - begin)};
        return true;
      }
    }
  }

  // A member's name, which must need no unescaping, and the colon.
  bool key(std::string_view& name) {
    return string(name) && name.find('\\') == std::string_view::npos && take(':');
  }

  // Calls member(name) for each member of an object, standing before its value.
  template <typename Member>
  bool object(Member&& member) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      std::string_view name;
      if (!key(name) || !member(name)) return false;
    } while (take(','));
    return take('}');
  }

  // Calls element() for each element of an array.
  template <typename Element>
  bool array(Element&& element) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!element()) return false;
    } while (take(','));
    return take(']');
  }

  bool literal(std::string_view word) {
    skip_blanks();
    if (static_cast<std::size_t>(end_ - at_) < word.size() ||
        std::memcmp(at_, word.data(), word.size()) != 0) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  // A plain count: digits alone.
  bool count(std::int32_t& number) {
    skip_blanks();
    std::int64_t value = 0;
    const char* const begin = at_;
    constexpr std::ptrdiff_t kMaxDigits = 9;
    while (at_ != end_ && is_digit(*at_) && at_ - begin <= kMaxDigits) {
      value = value * 10 + (*at_++ - '0');
    }
    const std::ptrdiff_t digits = at_ - begin;
    if (digits == 0 || digits > kMaxDigits || (digits > 1 && *begin == '0')) return false;
    if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) return false;
    number = static_cast<std::int32_t>(value);
    return true;
  }

  bool skip_value(int depth = 0) {
    constexpr int kMaxDepth = 32;
    std::string_view ignored;
    switch (peek()) {
      case '"':
        return string(ignored);
      case '{':
        return depth < kMaxDepth && object([&](std::string_view) { return skip_value(depth + 1); });
      case '[':
        return depth < kMaxDepth && array([&] { return skip_value(depth + 1); });
      case 't':
        return literal("true");
      case 'f':
        return literal("false");
      case 'n':
        return literal("null");
      default:
        return skip_number();
    }
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool digits() {
    const char* const begin = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return at_ != begin;
  }
  bool skip_number() {
    if (at_ != end_ && *at_ == '-') ++at_;
    const char* const begin = at_;
    if (!digits() || (*begin == '0' && at_ - begin > 1)) return false;
    if (at_ != end_ && *at_ == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      if (!digits()) return false;
    }
    return true;
  }

  const char* at_;
  const char* end_;
};

// Members that were seen: a second one of a name that matters is the parser's business.
class SeenMembers {
 public:
  bool once(int member) {
    const unsigned bit = 1u << member;
    if ((bits_ & bit) != 0) return false;
    bits_ |= bit;
    return true;
  }

 private:
  unsigned bits_ = 0;
};

class EventScan {
 public:
  EventScan(std::string_view data, StreamEvent& event) : scan_(data), event_(event) {}

  bool run() {
    SeenMembers seen;
    bool old_error = false;  // {"object":"error","message":"..."}
    std::string_view message;
    const bool understood = scan_.object([&](std::string_view name) {
      if (name == "choices") return seen.once(0) && choices();
      if (name == "usage") return seen.once(1) && usage();
      if (name == "error") return seen.once(2) && error();
      if (name == "object") {
        std::string_view kind;
        if (!seen.once(3) || !scan_.string(kind) || kind.find('\\') != std::string_view::npos) {
          return false;
        }
        old_error = kind == "error";
        return true;
      }
      if (name == "message") return seen.once(4) && scan_.string(message);
      if (name == "metrics") return seen.once(5) && scan_.literal("null");
      return scan_.skip_value();
    });
    if (!understood || !scan_.at_end()) return false;
    if (old_error) {
      event_.kinds |= kErrorEvent;
      if (!message.empty()) event_.error.escaped = message;
    }
    return true;
  }

 private:
  bool null_or(bool (EventScan::*read)()) {
    if (scan_.peek() == 'n') return scan_.literal("null");
    return (this->*read)();
  }

  bool choices() { return null_or(&EventScan::choice_array); }
  bool choice_array() {
    return scan_.array([&] {
      event_.kinds |= kChoicesEvent;
      return choice();
    });
  }

  bool choice() {
    SeenMembers seen;
    const bool had_content = !event_.content.empty();  // of a choice before
    return scan_.object([&](std::string_view name) {
      if (name == "delta" || name == "message") return seen.once(0) && null_or(&EventScan::delta);
      if (name == "text") {
        const bool in_delta_too = !had_content && !event_.content.empty();
        return seen.once(1) && !in_delta_too && text(event_.content, kContentEvent);
      }
      if (name == "finish_reason") return seen.once(2) && null_or(&EventScan::finish_reason);
      if (name == "token_ids") return seen.once(3) && null_or(&EventScan::token_ids);
      return scan_.skip_value();
    });
  }

  bool delta() {
    SeenMembers seen;
    const bool had_reasoning = !event_.reasoning.escaped.empty();
    return scan_.object([&](std::string_view name) {
      if (name == "content") return seen.once(0) && text(event_.content, kContentEvent);
      if (name == "role") return seen.once(1) && null_or(&EventScan::role);
      // Servers that send both say the same twice.
      const bool older = name == "reasoning_content";
      if (older || name == "reasoning") {
        EventText said;
        if (!seen.once(older ? 2 : 4) || !text(said, kReasoningEvent)) return false;
        const bool counts = !had_reasoning && (older || event_.reasoning.escaped.empty());
        if (!said.escaped.empty() && counts) event_.reasoning = said;
        return true;
      }
      if (name == "tool_calls") return seen.once(3) && null_or(&EventScan::tool_calls);
      return scan_.skip_value();
    });
  }

  bool text(EventText& into, EventKind kind) {
    if (scan_.peek() == 'n') return scan_.literal("null");
    std::string_view inside;
    if (!scan_.string(inside)) return false;
    if (inside.empty()) return true;
    event_.kinds |= kind;
    if (into.escaped.empty()) into.escaped = inside;
    return true;
  }

  bool role() {
    std::string_view ignored;
    event_.kinds |= kRoleEvent;
    return scan_.string(ignored);
  }

  bool finish_reason() {
    std::string_view reason;
    if (!scan_.string(reason) || reason.empty() || reason.find('\\') != std::string_view::npos) {
      return false;
    }
    event_.kinds |= kFinishEvent;
    if (event_.finish_reason == FinishReason::kNone) {
      event_.finish_reason = finish_reason_from(reason);
    }
    return true;
  }

  bool token_ids() {
    return scan_.array([&] {
      std::int32_t ignored = 0;
      event_.kinds |= kTokenIdsEvent;
      ++event_.token_ids;
      return scan_.count(ignored);
    });
  }

  bool tool_calls() {
    return scan_.array([&] {
      event_.kinds |= kToolEvent;
      return scan_.skip_value();
    });
  }

  bool usage() { return null_or(&EventScan::usage_object); }
  bool usage_object() {
    event_.kinds |= kUsageEvent;
    SeenMembers seen;
    return scan_.object([&](std::string_view name) {
      if (name == "prompt_tokens") return seen.once(0) && number(event_.usage.prompt);
      if (name == "completion_tokens") return seen.once(1) && number(event_.usage.completion);
      if (name == "prompt_tokens_details" || name == "completion_tokens_details") {
        return seen.once(name.front() == 'p' ? 2 : 3) && null_or(&EventScan::usage_details);
      }
      return scan_.skip_value();
    });
  }

  bool usage_details() {
    return scan_.object([&](std::string_view name) {
      if (name == "cached_tokens") return seen_details_.once(0) && number(event_.usage.cached);
      if (name == "image_tokens") return seen_details_.once(1) && number(event_.usage.image);
      if (name == "reasoning_tokens") {
        return seen_details_.once(2) && number(event_.usage.reasoning);
      }
      return scan_.skip_value();
    });
  }

  bool number(std::int32_t& into) {
    if (scan_.peek() == 'n') return scan_.literal("null");
    return scan_.count(into);
  }

  bool error() { return null_or(&EventScan::error_value); }
  bool error_value() {
    event_.kinds |= kErrorEvent;
    if (scan_.peek() == '"') return scan_.string(event_.error.escaped);
    SeenMembers seen;
    return scan_.object([&](std::string_view name) {
      if (name == "message") return seen.once(0) && scan_.string(event_.error.escaped);
      return scan_.skip_value();
    });
  }

  Scanner scan_;
  StreamEvent& event_;
  SeenMembers seen_details_;  // of both details objects of a usage
};

// ---- the parser ----

std::int32_t count_of(const json::object& from, std::string_view name) {
  const json::value* found = json::find(from, name);
  if (found == nullptr || !found->is_int64()) return kUnknownTokens;
  const std::int64_t count = found->as_int64();
  return count >= 0 && count <= std::numeric_limits<std::int32_t>::max()
             ? static_cast<std::int32_t>(count)
             : kUnknownTokens;
}

const json::object* object_in(const json::object& from, std::string_view name) {
  const json::value* found = json::find(from, name);
  return found != nullptr ? found->if_object() : nullptr;
}

const json::array* array_in(const json::object& from, std::string_view name) {
  const json::value* found = json::find(from, name);
  return found != nullptr ? found->if_array() : nullptr;
}

const json::string* string_in(const json::object& from, std::string_view name) {
  const json::value* found = json::find(from, name);
  return found != nullptr ? found->if_string() : nullptr;
}

void take_text(const json::object& from, std::string_view name, EventText& into, EventKind kind,
               StreamEvent& event) {
  const json::string* text = string_in(from, name);
  if (text == nullptr || text->empty()) return;
  event.kinds |= kind;
  if (into.decoded.empty()) into.decoded = std::string_view(*text);
}

void take_choice(const json::object& choice, StreamEvent& event) {
  take_text(choice, "text", event.content, kContentEvent, event);
  for (const std::string_view name : {"delta", "message"}) {
    const json::object* delta = object_in(choice, name);
    if (delta == nullptr) continue;
    if (string_in(*delta, "role") != nullptr) event.kinds |= kRoleEvent;
    take_text(*delta, "content", event.content, kContentEvent, event);
    take_text(*delta, "reasoning_content", event.reasoning, kReasoningEvent, event);
    take_text(*delta, "reasoning", event.reasoning, kReasoningEvent, event);
    const json::array* calls = array_in(*delta, "tool_calls");
    if (calls != nullptr && !calls->empty()) event.kinds |= kToolEvent;
  }
  if (const json::string* reason = string_in(choice, "finish_reason")) {
    event.kinds |= kFinishEvent;
    if (event.finish_reason == FinishReason::kNone) {
      event.finish_reason = finish_reason_from(std::string_view(*reason));
    }
  }
  const json::array* ids = array_in(choice, "token_ids");
  if (ids != nullptr && !ids->empty()) {
    event.kinds |= kTokenIdsEvent;
    event.token_ids += static_cast<std::int32_t>(ids->size());
  }
}

void take_usage(const json::object& usage, StreamEvent& event) {
  event.kinds |= kUsageEvent;
  event.usage.prompt = count_of(usage, "prompt_tokens");
  event.usage.completion = count_of(usage, "completion_tokens");
  for (const std::string_view name : {"prompt_tokens_details", "completion_tokens_details"}) {
    const json::object* details = object_in(usage, name);
    if (details == nullptr) continue;
    const auto take = [&](std::string_view count, std::int32_t& into) {
      if (details->contains(count)) into = count_of(*details, count);
    };
    take("cached_tokens", event.usage.cached);
    take("image_tokens", event.usage.image);
    take("reasoning_tokens", event.usage.reasoning);
  }
}

void take_error(const json::object& object, StreamEvent& event) {
  if (const json::value* error = json::find(object, "error")) {
    event.kinds |= kErrorEvent;
    if (const json::string* text = error->if_string()) event.error.decoded = *text;
    if (const json::object* fields = error->if_object()) {
      if (const json::string* text = string_in(*fields, "message")) event.error.decoded = *text;
    }
  }
  const json::string* kind = string_in(object, "object");
  if (kind != nullptr && *kind == "error") {
    event.kinds |= kErrorEvent;
    const json::string* text = string_in(object, "message");
    if (text != nullptr && !text->empty()) event.error.decoded = *text;
  }
}

// {"arrival_time": 1.5, ...} in seconds, as patched vLLM servers say it, perhaps inside an array;
// {"first_token": 1500, ...} in whole nanoseconds, as Saccade does. The log has seconds, and the
// former's names.
void take_stages(const json::object& object, StreamEvent& event) {
  const json::value* metrics = json::find(object, "metrics");
  if (metrics == nullptr) return;
  if (const json::array* list = metrics->if_array(); list != nullptr && !list->empty()) {
    metrics = &list->front();
  }
  const json::object* fields = metrics->if_object();
  if (fields == nullptr) return;
  for (const auto& field : *fields) {
    if (const double* seconds = field.value().if_double()) {
      event.stages.push_back({std::string(field.key()), *seconds});
    } else if (const std::int64_t* nanoseconds = field.value().if_int64()) {
      const std::string_view name = field.key();
      const bool has_old_name = name == "arrival" || name == "first_scheduled" ||
                                name == "first_token" || name == "finished";
      event.stages.push_back(
          {std::string(name) + (has_old_name ? "_time" : ""), saccade::seconds(*nanoseconds)});
    }
  }
}

// The four hex digits from `at` on, or -1.
std::int32_t hex4(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) return -1;
  std::int32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// The escape "\uXXXX" at `at` (the backslash), with its low surrogate; returns its length.
std::size_t append_unicode_escape(std::string& out, std::string_view text, std::size_t at) {
  constexpr std::uint32_t kReplacement = 0xfffd;
  const std::int32_t first = hex4(text, at + 2);
  if (first < 0) {
    append_utf8(out, kReplacement);
    return 2;
  }
  const auto code = static_cast<std::uint32_t>(first);
  if (code < 0xd800 || code > 0xdfff) {
    append_utf8(out, code);
    return 6;
  }
  const bool paired = code < 0xdc00 && text.substr(at + 6, 2) == "\\u";
  const std::int32_t second = paired ? hex4(text, at + 8) : -1;
  if (second >= 0xdc00 && second <= 0xdfff) {
    append_utf8(out,
                0x10000 + ((code - 0xd800) << 10) + (static_cast<std::uint32_t>(second) - 0xdc00));
    return 12;
  }
  append_utf8(out, kReplacement);
  return 6;
}

}  // namespace

void append_unescaped(std::string& out, std::string_view escaped) {
  constexpr std::string_view kLetters = "ntrbf";
  constexpr std::string_view kMeant = "\n\t\r\b\f";
  std::size_t at = 0;
  while (true) {
    const std::size_t slash = std::min(escaped.find('\\', at), escaped.size());
    out += escaped.substr(at, slash - at);
    if (slash + 1 >= escaped.size()) return;
    const char c = escaped[slash + 1];
    at = slash + (c == 'u' ? append_unicode_escape(out, escaped, slash) : 2);
    if (c == 'u') continue;
    const std::size_t letter = kLetters.find(c);
    out += letter == std::string_view::npos ? c : kMeant[letter];  // quote, slash, backslash
  }
}

void EventText::append_to(std::string& out) const {
  out += decoded;
  append_unescaped(out, escaped);
}

ScanOutcome scan_stream_event(std::string_view data, StreamEvent& event) {
  event = {};
  return EventScan(data, event).run() ? ScanOutcome::kRead : ScanOutcome::kUnsure;
}

std::optional<StreamEvent> parse_stream_event(std::string_view data) {
  const Result<json::value> parsed = json::parse(data);
  if (!parsed) return std::nullopt;
  const json::object* object = parsed->if_object();
  if (object == nullptr) return std::nullopt;
  StreamEvent event;
  if (const json::array* choices = array_in(*object, "choices")) {
    for (const json::value& choice : *choices) {
      event.kinds |= kChoicesEvent;
      if (const json::object* fields = choice.if_object()) take_choice(*fields, event);
    }
  }
  if (const json::object* usage = object_in(*object, "usage")) take_usage(*usage, event);
  take_error(*object, event);
  take_stages(*object, event);
  return event;
}

std::optional<StreamEvent> read_stream_event(std::string_view data) {
  StreamEvent event;
  if (data == "[DONE]") {
    event.kinds = kDoneEvent;
    return event;
  }
  if (scan_stream_event(data, event) == ScanOutcome::kRead) return event;
  return parse_stream_event(data);
}

}  // namespace saccade::bench
