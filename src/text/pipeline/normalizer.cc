#include "text/pipeline/normalizer.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "text/patterns/regex.h"
#include "text/pipeline/precompiled_charsmap.h"
#include "text/pipeline/step_members.h"
#include "text/unicode/byte_alphabet.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_tables.h"

namespace saccade {
namespace {

constexpr double kMaxGrowth = 64;
constexpr std::size_t kMaxPrefixBytes = 256;

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  bool apply(std::string& text) const override {
    text = normalize(text, form_);
    return false;
  }
  // A composed character is at most 4 characters of at most 4 bytes each when taken apart; one of
  // 2 bytes at most 3, one of 1 byte 1.
  double shrink() const override { return 6; }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  bool apply(std::string& text) const override {
    text = to_lowercase(text);
    return false;
  }
  double shrink() const override { return 4; }  // bytes of a character
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  bool apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
    return false;
  }
  double shrink() const override { return 1; }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  // `literal`: bytes of the pattern where it is a plain string, else 0.
  Replace(Regex pattern, std::size_t literal, std::string content)
      : pattern_(std::move(pattern)), literal_(literal), content_(std::move(content)) {}
  bool apply(std::string& text) const override {
    std::string result;
    std::size_t done = 0;
    bool front_removed = false;
    Regex::Matches matches(pattern_, text);
    while (const auto match = matches.next()) {
      // What replaces several characters stands for the last of them.
      const bool front = match->begin == 0 && match->end > 0;
      front_removed |= front && (content_.empty() || match->end > character_bytes(text[0]));
      result.append(text, done, match->begin - done);
      result += content_;
      done = match->end;
    }
    result.append(text, done);
    text = std::move(result);
    return front_removed;
  }
  double growth() const override { return replacement_growth(pattern_, content_); }
  double shrink() const override {
    if (literal_ == 0 || content_.empty()) return 0;
    return std::max(1.0, static_cast<double>(literal_) / static_cast<double>(content_.size()));
  }

 private:
  Regex pattern_;
  std::size_t literal_;
  std::string content_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool apply(std::string& text) const override {
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
    return begin > 0;
  }

 private:
  bool left_;
  bool right_;
};

// Removes the characters of a table.
class Remove final : public Normalizer {
 public:
  explicit Remove(std::span<const CodeRange> unwanted) : unwanted_(unwanted) {}
  bool apply(std::string& text) const override {
    std::string result;
    result.reserve(text.size());
    bool front_removed = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (in_ranges(unwanted_, next_character(text, at))) {
        front_removed |= begin == 0;
      } else {
        result.append(text, begin, at - begin);
      }
    }
    text = std::move(result);
    return front_removed;
  }

 private:
  std::span<const CodeRange> unwanted_;
};

// Each character becomes what `Map` appends for it.
template <typename Map>
class PerCharacter final : public Normalizer {
 public:
  explicit PerCharacter(Map map) : map_(std::move(map)) {}
  bool apply(std::string& text) const override {
    std::string result;
    result.reserve(text.size());
    bool front_removed = false;
    for (std::size_t at = 0; at < text.size();) {
      const bool front = at == 0;
      map_(next_character(text, at), result);
      front_removed |= front && result.empty();
    }
    text = std::move(result);
    return front_removed;
  }

 private:
  Map map_;
};

void append_nmt(char32_t code, std::string& out) {
  const bool removed = (code >= 0x01 && code <= 0x08) || code == 0x0B ||
                       (code >= 0x0E && code <= 0x1F) || code == 0x7F || code == 0x8F ||
                       code == 0x9F;
  const bool space = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D ||
                     code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                     code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
  if (!removed) append_utf8(out, space ? U' ' : code);
}

void append_bert_clean(char32_t code, std::string& out) {
  if (in_ranges(kUnicodeTables.control, code)) return;
  append_utf8(out, is_white_space(code) ? U' ' : code);
}

void append_bert_chinese(char32_t code, std::string& out) {
  const bool chinese =
      (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
      (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
      (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
      (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
  if (chinese) out += ' ';
  append_utf8(out, code);
  if (chinese) out += ' ';
}

template <typename Map>
std::unique_ptr<Normalizer> per_character(Map map) {
  return std::make_unique<PerCharacter<Map>>(std::move(map));
}

class ByteLevelForm final : public Normalizer {
 public:
  bool apply(std::string& text) const override {
    std::string result;
    append_byte_characters(result, text);
    text = std::move(result);
    return false;
  }
  double shrink() const override { return 1; }
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(PrecompiledCharsmap charsmap) : charsmap_(std::move(charsmap)) {}
  bool apply(std::string& text) const override {
    text = charsmap_.apply(text);
    return false;
  }

 private:
  PrecompiledCharsmap charsmap_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}
  bool apply(std::string& text) const override {
    bool front_removed = false;
    for (const auto& step : steps_) front_removed |= step->apply(text);
    return front_removed;
  }
  double growth() const override {
    double product = 1;
    for (const auto& step : steps_) product *= step->growth();
    return product;
  }
  double shrink() const override {
    double product = 1;
    for (const auto& step : steps_) product *= step->shrink();
    return product;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

Result<std::unique_ptr<Normalizer>> parse_replace(const json::object& from) {
  TRY(PatternMember pattern, pattern_of(from));
  TRY(std::string content, json::get_string(from, "content"));
  return std::make_unique<Replace>(std::move(pattern.regex), pattern.literal_bytes,
                                   std::move(content));
}

Result<std::unique_ptr<Normalizer>> parse_strip(const json::object& from) {
  TRY(const bool left, json::get_bool(from, "strip_left"));
  TRY(const bool right, json::get_bool(from, "strip_right"));
  return std::make_unique<Strip>(left, right);
}

Result<std::unique_ptr<Normalizer>> parse_prepend(const json::object& from) {
  TRY(std::string prefix, json::get_string(from, "prepend"));
  if (prefix.size() > kMaxPrefixBytes) {
    return fail(ErrorCode::kTooLarge, "'prepend' has {} bytes, limit {}", prefix.size(),
                kMaxPrefixBytes);
  }
  return std::make_unique<Prepend>(std::move(prefix));
}

Result<std::unique_ptr<Normalizer>> parse_bert(const json::object& from) {
  TRY(const bool clean_text, json::get_bool(from, "clean_text"));
  TRY(const bool chinese, json::get_bool(from, "handle_chinese_chars"));
  TRY(const bool lowercase, json::get_bool(from, "lowercase"));
  TRY(const bool strip_accents, json::get_bool_or(from, "strip_accents", lowercase));
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (clean_text) steps.push_back(per_character(append_bert_clean));
  if (chinese) steps.push_back(per_character(append_bert_chinese));
  if (strip_accents) {
    steps.push_back(std::make_unique<UnicodeForm>(NormalForm::kD));
    steps.push_back(std::make_unique<Remove>(kUnicodeTables.accents));
  }
  if (lowercase) steps.push_back(std::make_unique<Lowercase>());
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

Result<std::unique_ptr<Normalizer>> parse_precompiled(const json::object& from) {
  TRY(const std::string base64, json::get_string(from, "precompiled_charsmap"));
  TRY(PrecompiledCharsmap charsmap, PrecompiledCharsmap::parse(base64));
  return std::make_unique<Precompiled>(std::move(charsmap));
}

Result<std::unique_ptr<Normalizer>> parse_normalizers(const json::object& from) {
  TRY(const json::array* steps, steps_of(from, "normalizers"));
  std::vector<std::unique_ptr<Normalizer>> parsed;
  for (const json::value& step : *steps) {
    TRY(auto normalizer, parse_normalizer(step));
    parsed.push_back(std::move(normalizer));
  }
  return std::make_unique<NormalizerSequence>(std::move(parsed));
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
    if (type == "Sequence") return parse_normalizers(object);
    if (type == "NFC") return std::make_unique<UnicodeForm>(NormalForm::kC);
    if (type == "NFD") return std::make_unique<UnicodeForm>(NormalForm::kD);
    if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalForm::kKC);
    if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalForm::kKD);
    if (type == "Lowercase") return std::make_unique<Lowercase>();
    if (type == "Prepend") return parse_prepend(object);
    if (type == "Replace") return parse_replace(object);
    if (type == "Strip") return parse_strip(object);
    if (type == "StripAccents") return std::make_unique<Remove>(kUnicodeTables.combining);
    if (type == "Nmt") return per_character(append_nmt);
    if (type == "BertNormalizer") return parse_bert(object);
    if (type == "ByteLevel") return std::make_unique<ByteLevelForm>();
    if (type == "Precompiled") return parse_precompiled(object);
    return fail(ErrorCode::kUnsupported, "this type is not supported");
  }();
  if (!parsed) return fail_within("normalizer " + type, std::move(parsed).error());
  if ((*parsed)->growth() > kMaxGrowth) {
    return fail(ErrorCode::kTooLarge, "normalizer {}: makes a text up to {} times longer, limit {}",
                type, (*parsed)->growth(), kMaxGrowth);
  }
  return parsed;
}

}  // namespace saccade
