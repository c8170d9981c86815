#include "text/pipeline/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/patterns/regex.h"
#include "text/pipeline/step_members.h"
#include "text/unicode/byte_alphabet.h"
#include "text/unicode/unicode.h"
#include "text/unicode/unicode_tables.h"

namespace saccade {
namespace {

// The pattern that ByteLevel brings along, GPT-2's.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A stretch of a piece, and whether the pattern matched it.
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool match = false;
};

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Where the cuts are, given stretches that cover the piece in order. Removed ones keep `match`.
void join_stretches(std::vector<Stretch>& stretches, Behavior behavior) {
  if (behavior == Behavior::kRemoved) return;
  std::vector<Stretch> joined;
  bool previous_match = false;
  const auto add = [&](const Stretch& s, bool join) {
    if (join && !joined.empty()) {
      joined.back().begin = std::min(joined.back().begin, s.begin);
      joined.back().end = std::max(joined.back().end, s.end);
    } else {
      joined.push_back({s.begin, s.end, false});
    }
    previous_match = s.match;
  };
  switch (behavior) {
    case Behavior::kIsolated:
      for (Stretch& s : stretches) s.match = false;
      return;
    case Behavior::kContiguous:
      for (const Stretch& s : stretches) add(s, s.match == previous_match);
      break;
    case Behavior::kMergedWithPrevious:
      for (const Stretch& s : stretches) add(s, s.match && !previous_match);
      break;
    case Behavior::kMergedWithNext:
      for (auto s = stretches.rbegin(); s != stretches.rend(); ++s)
        add(*s, s->match && !previous_match);
      stretches.assign(joined.rbegin(), joined.rend());
      return;
    case Behavior::kRemoved:
      return;
  }
  stretches = std::move(joined);
}

// Cuts every piece where `find(piece, stretches)` says.
template <typename Find>
void cut(Pieces& pieces, Behavior behavior, const Find& find) {
  std::vector<std::string_view> views;
  views.reserve(pieces.views.size());
  std::vector<Stretch> stretches;
  for (std::size_t i = 0; i < pieces.views.size(); ++i) {
    const std::string_view piece = pieces.views[i];
    stretches.clear();
    find(piece, stretches);
    join_stretches(stretches, behavior);
    bool first = true;
    for (const Stretch& s : stretches) {
      if (s.match || s.begin == s.end) continue;
      if (i == 0 && first && s.begin > 0) pieces.begins_text = false;
      first = false;
      views.push_back(piece.substr(s.begin, s.end - s.begin));
    }
    if (i == 0 && first) pieces.begins_text = false;
  }
  pieces.views = std::move(views);
}

void find_pattern(const Regex& pattern, bool invert, std::string_view piece,
                  std::vector<Stretch>& stretches) {
  std::size_t done = 0;
  Regex::Matches matches(pattern, piece);
  while (const auto match = matches.next()) {
    if (match->begin > done) stretches.push_back({done, match->begin, invert});
    stretches.push_back({match->begin, match->end, !invert});
    done = match->end;
  }
  if (done < piece.size()) stretches.push_back({done, piece.size(), invert});
}

template <typename Predicate>
void find_characters(const Predicate& wanted, std::string_view piece,
                     std::vector<Stretch>& stretches) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t begin = at;
    if (!wanted(next_character(piece, at))) continue;
    if (begin > done) stretches.push_back({done, begin, false});
    stretches.push_back({begin, at, true});
    done = at;
  }
  if (done < piece.size()) stretches.push_back({done, piece.size(), false});
}

class Split final : public PreTokenizer {
 public:
  Split(Regex pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(Pieces& pieces) const override {
    cut(pieces, behavior_, [&](std::string_view piece, std::vector<Stretch>& stretches) {
      find_pattern(pattern_, invert_, piece, stretches);
    });
  }
  bool keeps_all() const override { return behavior_ != Behavior::kRemoved; }

 private:
  Regex pattern_;
  Behavior behavior_;
  bool invert_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(std::optional<Regex> pattern, bool add_prefix_space, bool keep_bytes)
      : pattern_(std::move(pattern)),
        add_prefix_space_(add_prefix_space),
        keep_bytes_(keep_bytes) {}

  void split(Pieces& pieces) const override {
    if (add_prefix_space_) {
      for (auto& piece : pieces.views) {
        if (!piece.starts_with(' ')) piece = pieces.made.emplace_back(" " + std::string(piece));
      }
    }
    if (pattern_) {
      cut(pieces, Behavior::kIsolated, [&](std::string_view piece, std::vector<Stretch>& found) {
        find_pattern(*pattern_, false, piece, found);
      });
    }
    if (keep_bytes_) return;
    for (auto& piece : pieces.views) {
      std::string& characters = pieces.made.emplace_back();
      append_byte_characters(characters, piece);
      piece = characters;
    }
  }
  bool keeps_all() const override { return true; }

 private:
  std::optional<Regex> pattern_;
  bool add_prefix_space_;
  bool keep_bytes_;
};

// Cuts around single characters.
class CharacterSplit final : public PreTokenizer {
 public:
  using Predicate = bool (*)(char32_t);
  CharacterSplit(Predicate wanted, Behavior behavior) : wanted_(wanted), behavior_(behavior) {}
  void split(Pieces& pieces) const override {
    cut(pieces, behavior_, [&](std::string_view piece, std::vector<Stretch>& stretches) {
      find_characters(wanted_, piece, stretches);
    });
  }
  bool keeps_all() const override { return behavior_ != Behavior::kRemoved; }

 private:
  Predicate wanted_;
  Behavior behavior_;
};

bool is_numeric(char32_t code) { return in_ranges(kUnicodeTables.numeric, code); }
bool is_punctuation(char32_t code) { return in_ranges(kUnicodeTables.punctuation, code); }

// Runs of word characters, and runs of what is neither that nor blank.
class Whitespace final : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override {
    cut(pieces, Behavior::kRemoved, [](std::string_view piece, std::vector<Stretch>& stretches) {
      enum class Kind { kWord, kOther, kBlank };
      const auto kind_of = [](char32_t code) {
        if (is_word_character(code)) return Kind::kWord;
        return is_white_space(code) ? Kind::kBlank : Kind::kOther;
      };
      std::size_t begin = 0;
      Kind kind = Kind::kBlank;
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t here = at;
        const Kind next = kind_of(next_character(piece, at));
        if (next == kind) continue;
        if (here > begin) stretches.push_back({begin, here, kind == Kind::kBlank});
        begin = here;
        kind = next;
      }
      stretches.push_back({begin, piece.size(), kind == Kind::kBlank});
    });
  }
};

class Metaspace final : public PreTokenizer {
 public:
  enum class Prepend { kFirst, kNever, kAlways };
  Metaspace(std::string replacement, Prepend prepend, bool cuts)
      : replacement_(std::move(replacement)), prepend_(prepend), cuts_(cuts) {}

  void split(Pieces& pieces) const override {
    for (std::size_t i = 0; i < pieces.views.size(); ++i) {
      const std::string_view piece = pieces.views[i];
      std::string& text = pieces.made.emplace_back();
      const bool wanted = prepend_ == Prepend::kAlways ||
                          (prepend_ == Prepend::kFirst && i == 0 && pieces.begins_text);
      if (wanted && piece[0] != ' ' && !piece.starts_with(replacement_)) text += replacement_;
      for (const char c : piece) {
        if (c == ' ') {
          text += replacement_;
        } else {
          text += c;
        }
      }
      pieces.views[i] = text;
    }
    if (!cuts_) return;
    cut(pieces, Behavior::kMergedWithNext,
        [&](std::string_view piece, std::vector<Stretch>& stretches) {
          std::size_t done = 0;
          for (std::size_t at = piece.find(replacement_); at != std::string_view::npos;
               at = piece.find(replacement_, done)) {
            if (at > done) stretches.push_back({done, at, false});
            done = at + replacement_.size();
            stretches.push_back({at, done, true});
          }
          if (done < piece.size()) stretches.push_back({done, piece.size(), false});
        });
  }
  bool keeps_all() const override { return true; }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool cuts_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t length) : length_(length) {}
  void split(Pieces& pieces) const override {
    cut(pieces, Behavior::kIsolated, [&](std::string_view piece, std::vector<Stretch>& stretches) {
      std::size_t begin = 0, count = 0;
      for (std::size_t at = 0; at < piece.size();) {
        at += character_bytes(piece[at]);
        if (++count % length_ != 0 && at < piece.size()) continue;
        stretches.push_back({begin, at, false});
        begin = at;
      }
    });
  }
  bool keeps_all() const override { return true; }

 private:
  std::size_t length_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  void split(Pieces& pieces) const override {
    for (const auto& step : steps_) step->split(pieces);
  }
  bool keeps_all() const override {
    return std::ranges::all_of(steps_, [](const auto& step) { return step->keeps_all(); });
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

Result<Behavior> parse_behavior(const json::object& from) {
  TRY(const std::string name, json::get_string(from, "behavior"));
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return fail(ErrorCode::kInvalid, "behavior \"{}\" is not known", name);
}

Result<std::unique_ptr<PreTokenizer>> parse_split(const json::object& from) {
  TRY(PatternMember pattern, pattern_of(from));
  TRY(const Behavior behavior, parse_behavior(from));
  TRY(const bool invert, json::get_bool(from, "invert"));
  return std::make_unique<Split>(std::move(pattern.regex), behavior, invert);
}

Result<std::unique_ptr<PreTokenizer>> parse_byte_level(const json::object& from, bool keep_bytes) {
  TRY(const bool add_prefix_space, json::get_bool(from, "add_prefix_space"));
  TRY(const bool use_regex, json::get_bool_or(from, "use_regex", true));
  std::optional<Regex> pattern;
  if (use_regex) {
    TRY(pattern, Regex::compile(kByteLevelPattern));
  }
  return std::make_unique<ByteLevel>(std::move(pattern), add_prefix_space, keep_bytes);
}

Result<std::unique_ptr<PreTokenizer>> parse_digits(const json::object& from) {
  TRY(const bool individual, json::get_bool(from, "individual_digits"));
  return std::make_unique<CharacterSplit>(is_numeric,
                                          individual ? Behavior::kIsolated : Behavior::kContiguous);
}

Result<std::unique_ptr<PreTokenizer>> parse_punctuation(const json::object& from) {
  Behavior behavior = Behavior::kIsolated;
  if (json::find(from, "behavior")) {
    TRY(behavior, parse_behavior(from));
  }
  return std::make_unique<CharacterSplit>(is_punctuation, behavior);
}

Result<std::unique_ptr<PreTokenizer>> parse_metaspace(const json::object& from) {
  TRY(std::string replacement, one_character(from, "replacement"));
  TRY(const bool cuts, json::get_bool_or(from, "split", true));
  TRY(const bool prefix, json::get_bool_or(from, "add_prefix_space", true));
  TRY(const std::string scheme, json::get_string_or(from, "prepend_scheme", "always"));
  using Scheme = Metaspace::Prepend;
  Scheme prepend = Scheme::kAlways;
  if (scheme == "first") prepend = Scheme::kFirst;
  if (scheme == "never") prepend = Scheme::kNever;
  if (scheme != "always" && prepend == Scheme::kAlways) {
    return fail(ErrorCode::kInvalid, "prepend_scheme \"{}\" is not known", scheme);
  }
  if (!prefix && prepend != Scheme::kNever) {
    return fail(ErrorCode::kInvalid, "add_prefix_space is false and prepend_scheme is \"{}\"",
                scheme);
  }
  return std::make_unique<Metaspace>(std::move(replacement), prepend, cuts);
}

Result<std::unique_ptr<PreTokenizer>> parse_delimiter(const json::object& from) {
  TRY(const std::string delimiter, one_character(from, "delimiter"));
  TRY(Regex pattern, Regex::literal(delimiter));
  return std::make_unique<Split>(std::move(pattern), Behavior::kRemoved, false);
}

Result<std::unique_ptr<PreTokenizer>> parse_fixed_length(const json::object& from) {
  TRY(const std::int64_t length, json::get_int_or(from, "length", 5));
  if (length < 1) return fail(ErrorCode::kInvalid, "'length' is {}, 1 is the least", length);
  return std::make_unique<FixedLength>(static_cast<std::size_t>(length));
}

// Words between blanks, punctuation by itself.
std::unique_ptr<PreTokenizer> make_bert() {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  steps.push_back(std::make_unique<CharacterSplit>(is_white_space, Behavior::kRemoved));
  steps.push_back(std::make_unique<CharacterSplit>(is_punctuation, Behavior::kIsolated));
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

Result<std::unique_ptr<PreTokenizer>> parse_sequence(const json::object& from,
                                                     const PreTokenizerOptions& options) {
  TRY(const json::array* steps, steps_of(from, "pretokenizers"));
  std::vector<std::unique_ptr<PreTokenizer>> parsed;
  for (std::size_t i = 0; i < steps->size(); ++i) {
    const bool last = i + 1 == steps->size();
    TRY(auto step, parse_pre_tokenizer((*steps)[i], {options.keep_bytes && last}));
    parsed.push_back(std::move(step));
  }
  return std::make_unique<PreTokenizerSequence>(std::move(parsed));
}

}  // namespace

Result<std::unique_ptr<PreTokenizer>> parse_pre_tokenizer(const json::value& from,
                                                          const PreTokenizerOptions& options) {
  if (!from.is_object()) {
    return fail(ErrorCode::kInvalid, "pre_tokenizer is {}, an object is required",
                json::kind_name(from));
  }
  const json::object& object = from.get_object();
  TRY(const std::string type, json::get_string(object, "type"));
  auto parsed = [&]() -> Result<std::unique_ptr<PreTokenizer>> {
    if (type == "Sequence") return parse_sequence(object, options);
    if (type == "Split") return parse_split(object);
    if (type == "ByteLevel") return parse_byte_level(object, options.keep_bytes);
    if (type == "Digits") return parse_digits(object);
    if (type == "Punctuation") return parse_punctuation(object);
    if (type == "Metaspace") return parse_metaspace(object);
    if (type == "CharDelimiterSplit") return parse_delimiter(object);
    if (type == "FixedLength") return parse_fixed_length(object);
    if (type == "BertPreTokenizer") return make_bert();
    if (type == "Whitespace") return std::make_unique<Whitespace>();
    if (type == "WhitespaceSplit")
      return std::make_unique<CharacterSplit>(is_white_space, Behavior::kRemoved);
    return fail(ErrorCode::kUnsupported, "this type is not supported");
  }();
  if (!parsed) return fail_within("pre_tokenizer " + type, std::move(parsed).error());
  return parsed;
}

bool ends_in_byte_level(const json::value* pre_tokenizer) {
  while (pre_tokenizer != nullptr && pre_tokenizer->is_object()) {
    const json::object& object = pre_tokenizer->get_object();
    const auto type = json::get_string(object, "type");
    if (!type || *type != "Sequence") return type && *type == "ByteLevel";
    const auto steps = steps_of(object, "pretokenizers");
    pre_tokenizer = steps && !(*steps)->empty() ? &(*steps)->back() : nullptr;
  }
  return false;
}

}  // namespace saccade
