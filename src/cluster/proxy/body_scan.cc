#include "cluster/proxy/body_scan.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/hash.h"

namespace saccade::cluster {
namespace {

constexpr std::size_t kMaxLevels = 512;
constexpr std::size_t kMaxHeld = 256;         // of a key or a name
constexpr std::size_t kOpening = 1024;        // bytes of text that say how a request begins
constexpr std::size_t kMediumOpening = 1024;  // and of each medium
constexpr std::size_t kMaxMedia = 4096;
constexpr std::size_t kMaxLiteral = 32;
constexpr std::string_view kMark = "\xEF\xBB\xBF";  // which may stand before JSON

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_medium(std::string_view key) {
  return key == "image_url" || key == "video_url" || key == "image" || key == "video" ||
         key == "input_audio" || key == "audio_url";
}

// Bytes up to the next quote or backslash. Looked for in windows that grow with what was passed, so
// that no byte is looked at more than a few times, however often this is called.
std::size_t plain_run(std::string_view bytes) {
  const auto place = [](std::string_view in, char c) {
    const void* const found = std::memchr(in.data(), c, in.size());
    return found == nullptr ? in.size()
                            : static_cast<std::size_t>(static_cast<const char*>(found) - in.data());
  };
  std::size_t passed = 0;
  for (std::size_t window = 64; passed < bytes.size(); window *= 2) {
    const std::string_view in = bytes.substr(passed, window);
    const std::size_t run = place(in.substr(0, place(in, '"')), '\\');
    passed += run;
    if (run < in.size()) break;
  }
  return passed;
}

}  // namespace

void BodyScan::feed(std::string_view bytes) {
  while (!bytes.empty() && !lost_) {
    std::size_t taken = 1;
    if (in_string_) {
      taken = take_string(bytes);
    } else {
      structure(bytes.front());
    }
    offset_ += taken;
    bytes.remove_prefix(taken);
  }
}

// --- strings ---

void BodyScan::begin_string() {
  const bool is_key = !levels_.empty() && levels_.back().wants_key;
  in_string_ = true;
  target_ = is_key ? Target::kKey : target_of_string();
  held_.clear();
  raw_ = 0;
  escaped_ = false;
  unicode_ = 0;
  if (target_ == Target::kMedia) {
    if (found_.media.size() < kMaxMedia) {
      found_.media.push_back({offset_ + 1, offset_ + 1, false});
    } else {
      target_ = Target::kNothing;
    }
  }
}

std::size_t BodyScan::take_string(std::string_view bytes) {
  if (escaped_ || unicode_ > 0) {
    take_escape(bytes.front());
    note(bytes.substr(0, 1));
    return 1;
  }
  const std::size_t run = plain_run(bytes);
  if (run > 0) {
    const std::string_view plain = bytes.substr(0, run);
    if (target_ != Target::kNothing && target_ != Target::kText && held_.size() < kMaxHeld)
      held_.append(plain.substr(0, kMaxHeld - held_.size()));
    note(plain);
    return run;
  }
  if (bytes.front() == '\\') {
    escaped_ = true;
    note(bytes.substr(0, 1));
  } else {
    end_string();
  }
  return 1;
}

void BodyScan::take_escape(char c) {
  if (unicode_ > 0) {
    unsigned digit = 16;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') digit = static_cast<unsigned>(c - 'A') + 10;
    if (digit > 15) return lose();
    code_ = code_ * 16 + digit;
    if (--unicode_ == 0) add(code_ < 128 ? static_cast<char>(code_) : '?');
    return;
  }
  escaped_ = false;
  if (c == 'u') {
    unicode_ = 4;
    code_ = 0;
    return;
  }
  constexpr std::string_view kLetters = "ntrbf\"\\/";
  constexpr std::string_view kMeant = "\n\t\r\b\f\"\\/";
  const std::size_t letter = kLetters.find(c);
  letter == std::string_view::npos ? lose() : add(kMeant[letter]);
}

void BodyScan::add(char c) {
  if (target_ != Target::kNothing && target_ != Target::kText && held_.size() < kMaxHeld)
    held_ += c;
}

// Bytes of the string in hand: byte by byte, so that it does not matter how they are cut.
void BodyScan::note(std::string_view raw) {
  const std::size_t before = raw_;
  raw_ += raw.size();
  std::size_t counted = 0;
  if (target_ == Target::kText) {
    found_.text_bytes += raw.size();
    counted = std::min(raw.size(), kOpening - std::min(kOpening, noted_));
    noted_ += counted;
  } else if (target_ == Target::kMedia && before < kMediumOpening) {
    counted = std::min(raw.size(), kMediumOpening - before);
  }
  for (const char c : raw.substr(0, counted))
    found_.opening = (found_.opening ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL + 1;
}

void BodyScan::end_string() {
  in_string_ = false;
  switch (target_) {
    case Target::kKey:
      key_ = held_;
      levels_.back().wants_key = false;
      return;
    case Target::kModel:
      found_.model = held_;
      break;
    case Target::kUser:
      found_.user = held_;
      break;
    case Target::kMedia: {
      ScannedMedia& medium = found_.media.back();
      medium.end = offset_;
      medium.remote = held_.starts_with("http");
      found_.opening = hash_combine(found_.opening, raw_);
      break;
    }
    case Target::kText:
    case Target::kNothing:
      break;
  }
  if (levels_.empty()) ended_ = found_.complete = true;
}

// --- structure ---

void BodyScan::structure(char c) {
  if (offset_ < kMark.size() && c == kMark[offset_]) return;
  if (!literal_.empty() && (is_blank(c) || c == ',' || c == '}' || c == ']')) end_literal();
  if (is_blank(c)) return;
  if (ended_) {
    found_.complete = false;
    return lose();
  }
  switch (c) {
    case '{':
    case '[':
      return open(c == '{');
    case '}':
    case ']':
      return close(c == '}');
    case '"':
      return literal_.empty() ? begin_string() : lose();
    case ',':
      if (levels_.empty()) return lose();
      levels_.back().wants_key = levels_.back().object;
      return;
    case ':':
      if (levels_.empty() || !levels_.back().object) return lose();
      return;
    default:
      if (!levels_.empty() && levels_.back().wants_key) return lose();
      if (literal_.size() < kMaxLiteral) literal_ += c;
  }
}

void BodyScan::open(bool object) {
  if (!literal_.empty() || levels_.size() >= kMaxLevels) return lose();
  if (!levels_.empty() && levels_.back().wants_key) return lose();
  Place place = place_below();
  // A list of messages has objects, a message is one.
  const bool is_object = place == Place::kRoot || place == Place::kMessage ||
                         place == Place::kPart || place == Place::kMedium;
  if (place != Place::kOther && is_object != object) place = Place::kOther;
  if (place == Place::kMessage) ++found_.messages;
  levels_.push_back({place, object, object});
}

void BodyScan::close(bool object) {
  if (levels_.empty() || levels_.back().object != object) return lose();
  levels_.pop_back();
  key_.clear();
  if (levels_.empty()) ended_ = found_.complete = true;
}

// Where the value that begins now stands.
BodyScan::Place BodyScan::place_below() const {
  if (levels_.empty()) return Place::kRoot;
  switch (levels_.back().place) {
    case Place::kRoot:
      if (key_ == "messages" || key_ == "input") return Place::kMessages;
      return key_ == "prompt" ? Place::kPrompts : Place::kOther;
    case Place::kMessages:
      return Place::kMessage;
    case Place::kMessage:
      return key_ == "content" ? Place::kContent : Place::kOther;
    case Place::kContent:
      return Place::kPart;
    case Place::kPart:
      if (key_ == "video") return Place::kFrames;
      return is_medium(key_) ? Place::kMedium : Place::kOther;
    default:
      return Place::kOther;
  }
}

BodyScan::Target BodyScan::target_of_string() const {
  if (levels_.empty()) return Target::kNothing;
  switch (levels_.back().place) {
    case Place::kRoot:
      if (key_ == "model") return Target::kModel;
      if (key_ == "user" || key_ == "session_id" || key_ == "prompt_cache_key")
        return Target::kUser;
      return key_ == "prompt" || key_ == "input" ? Target::kText : Target::kNothing;
    case Place::kMessage:
      return key_ == "content" || key_ == "role" ? Target::kText : Target::kNothing;
    case Place::kPart:
      if (key_ == "text") return Target::kText;
      return is_medium(key_) ? Target::kMedia : Target::kNothing;
    case Place::kMedium:
      return key_ == "url" || key_ == "data" ? Target::kMedia : Target::kNothing;
    case Place::kMessages:
    case Place::kPrompts:
    case Place::kContent:
      return Target::kText;
    case Place::kFrames:
      return Target::kMedia;
    case Place::kOther:
      return Target::kNothing;
  }
  return Target::kNothing;
}

void BodyScan::end_literal() {
  if (!levels_.empty() && levels_.back().place == Place::kRoot) {
    if (key_ == "stream") found_.stream = literal_ == "true";
    if (key_ == "max_tokens" || key_ == "max_completion_tokens") {
      std::int64_t number = 0;
      const char* const last = literal_.data() + literal_.size();
      const auto [end, error] = std::from_chars(literal_.data(), last, number);
      if (error == std::errc() && end == last && number > 0) found_.max_tokens = number;
    }
  }
  literal_.clear();
  if (levels_.empty()) ended_ = found_.complete = true;
}

}  // namespace saccade::cluster
