#include "text/normalizer.h"

#include <utility>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace saccade {
namespace {

// A replacement that makes a text eight times longer, past this, is a file's mischief: not applied.
constexpr std::size_t kMaxGrownBytes = std::size_t{16} << 20;

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  void apply(std::string& text) const override { text = normalize(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(std::string& text) const override { text = to_lowercase(text); }
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::string& text) const override {
    std::string result;
    std::size_t done = 0;
    Regex::Matches matches(pattern_, text);
    while (const auto match = matches.next()) {
      result.append(text, done, match->begin - done);
      result += content_;
      done = match->end;
      if (result.size() > kMaxGrownBytes && result.size() / 8 > text.size()) return;
    }
    if (done == 0 && result.empty()) return;
    result.append(text, done);
    text = std::move(result);
  }

 private:
  Regex pattern_;
  std::string content_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& text) const override {
    std::size_t begin = 0, end = text.size();
    while (left_ && begin < end) {
      std::size_t next = begin;
      if (!is_white_space(next_character(text, next))) break;
      begin = next;
    }
    while (right_ && end > begin) {
      const std::size_t last = previous_character(text, end);
      std::size_t next = last;
      if (!is_white_space(next_character(text, next))) break;
      end = last;
    }
    text = text.substr(begin, end - begin);
  }

 private:
  bool left_;
  bool right_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  void apply(std::string& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

Result<std::unique_ptr<Normalizer>> parse_replace(const json::object& from) {
  const json::value* pattern = json::find(from, "pattern");
  if (pattern == nullptr || !pattern->is_object()) {
    return fail(ErrorCode::kInvalid, "'pattern' must be an object");
  }
  TRY(std::string content, json::get_string(from, "content"));
  const json::object& object = pattern->get_object();
  const bool is_regex = json::find(object, "Regex") != nullptr;
  TRY(const std::string text, json::get_string(object, is_regex ? "Regex" : "String"));
  TRY(Regex regex, is_regex ? Regex::compile(text) : Regex::literal(text));
  return std::make_unique<Replace>(std::move(regex), std::move(content));
}

Result<std::unique_ptr<Normalizer>> parse_strip(const json::object& from) {
  TRY(const bool left, json::get_bool(from, "strip_left"));
  TRY(const bool right, json::get_bool(from, "strip_right"));
  return std::make_unique<Strip>(left, right);
}

Result<std::unique_ptr<Normalizer>> parse_prepend(const json::object& from) {
  TRY(std::string prefix, json::get_string(from, "prepend"));
  return std::make_unique<Prepend>(std::move(prefix));
}

Result<std::unique_ptr<Normalizer>> parse_sequence(const json::object& from) {
  const json::value* steps = json::find(from, "normalizers");
  if (steps == nullptr || !steps->is_array()) {
    return fail(ErrorCode::kInvalid, "'normalizers' must be an array");
  }
  std::vector<std::unique_ptr<Normalizer>> parsed;
  for (const json::value& step : steps->get_array()) {
    TRY(auto normalizer, parse_normalizer(step));
    parsed.push_back(std::move(normalizer));
  }
  return std::make_unique<Sequence>(std::move(parsed));
}

}  // namespace

Result<std::unique_ptr<Normalizer>> parse_normalizer(const json::value& from) {
  if (!from.is_object()) {
    return fail(ErrorCode::kInvalid, "normalizer is {}, an object is required",
                json::kind_name(from));
  }
  const json::object& object = from.get_object();
  TRY(const std::string type, json::get_string(object, "type"));
  auto parsed = [&]() -> Result<std::unique_ptr<Normalizer>> {
    if (type == "Sequence") return parse_sequence(object);
    if (type == "NFC") return std::make_unique<UnicodeForm>(NormalForm::kC);
    if (type == "NFD") return std::make_unique<UnicodeForm>(NormalForm::kD);
    if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalForm::kKC);
    if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalForm::kKD);
    if (type == "Lowercase") return std::make_unique<Lowercase>();
    if (type == "Prepend") return parse_prepend(object);
    if (type == "Replace") return parse_replace(object);
    if (type == "Strip") return parse_strip(object);
    return fail(ErrorCode::kUnsupported, "this type is not supported");
  }();
  if (!parsed) return fail_within("normalizer " + type, std::move(parsed).error());
  return parsed;
}

}  // namespace saccade
