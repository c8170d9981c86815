#include "bench/datasets/text_source.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace saccade::bench {
namespace {

constexpr int kMaxRounds = 10;
constexpr std::int64_t kMaxLength = 10'000'000;

constexpr std::array<std::string_view, 96> kWords = {
    "the",   "of",    "and",   "to",     "in",   "is",   "you",   "that",   "it",    "he",
    "was",   "for",   "on",    "are",    "as",   "with", "his",   "they",   "at",    "be",
    "this",  "have",  "from",  "or",     "one",  "had",  "by",    "word",   "but",   "not",
    "what",  "all",   "were",  "we",     "when", "your", "can",   "said",   "there", "use",
    "an",    "each",  "which", "she",    "do",   "how",  "their", "if",     "will",  "up",
    "other", "about", "out",   "many",   "then", "them", "these", "so",     "some",  "her",
    "would", "make",  "like",  "him",    "into", "time", "has",   "look",   "two",   "more",
    "write", "go",    "see",   "number", "no",   "way",  "could", "people", "my",    "than",
    "first", "water", "been",  "call",   "who",  "oil",  "its",   "now",    "find",  "long",
    "down",  "day",   "did",   "get",    "come", "made"};

// Single tokens of nearly every vocabulary, or parts of one.
constexpr std::array<std::string_view, 12> kPieces = {" a", " 1", "!", "?",  "1", "z",
                                                      "\n", "~",  "Q", " x", ".", "#"};

// Puts pieces behind `text` until it has `length` tokens: whatever adds some, and not too many.
// Less when none fits, or when `count` fails (below 0).
template <typename Count>
MadeText fill_up(std::string text, std::int32_t tokens, std::int32_t length, Count count) {
  bool fits = true;
  while (fits && tokens >= 0 && tokens < length) {
    fits = false;
    for (const std::string_view piece : kPieces) {
      const std::int32_t longer = count(text + std::string(piece));
      if (longer <= tokens || longer > length) continue;
      text += piece;
      tokens = longer;
      fits = true;
      break;
    }
  }
  return {std::move(text), tokens};
}

class TokenTextSource final : public TextSource {
 public:
  explicit TokenTextSource(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id)
      if (!tokenizer.is_special(id) && !tokenizer.piece(id).empty()) allowed_.push_back(id);
  }

  MadeText extend(std::string_view prefix, std::int32_t length, Rng& rng) override {
    std::vector<TokenId> ids = tokenizer_.encode(prefix, kPlain);
    if (allowed_.empty()) return counted(std::string(prefix));
    // Decoding and encoding again may join tokens or split them: cut or fill up until it holds.
    const auto wanted = static_cast<std::size_t>(std::max(length, 0));
    std::uint64_t next = rng.below(allowed_.size());
    std::string text(prefix);
    for (int round = 0; round < kMaxRounds; ++round) {
      if (ids.size() == wanted && round > 0) break;
      while (ids.size() < wanted) ids.push_back(allowed_[next++ % allowed_.size()]);
      ids.resize(wanted);
      text = tokenizer_.decode(ids, false);
      ids = tokenizer_.encode(text, kPlain);
    }
    // Tokens that are parts of a character come back as others, and more: cut more of them.
    for (std::size_t less = 1; ids.size() > wanted && less <= wanted; ++less) {
      ids.resize(wanted - less);
      text = tokenizer_.decode(ids, false);
      ids = tokenizer_.encode(text, kPlain);
    }
    return fill_up(std::move(text), static_cast<std::int32_t>(ids.size()), length,
                   [&](const std::string& t) { return count(t); });
  }

  MadeText repeat_one(std::int32_t length, Rng& rng) override {
    MadeText best;
    // Not every token repeats as itself: "\n" twice is often one token.
    for (int attempt = 0; attempt < 50 && !allowed_.empty() && best.tokens != length; ++attempt) {
      const std::string piece = tokenizer_.decode({allowed_[rng.below(allowed_.size())]}, false);
      if (piece.empty() || piece.find('\xEF') != std::string::npos) continue;  // U+FFFD
      std::string text;
      for (std::int32_t i = 0; i < length; ++i) text += piece;
      MadeText made = counted(std::move(text));
      if (best.tokens < 0 || std::abs(made.tokens - length) < std::abs(best.tokens - length))
        best = std::move(made);
    }
    return best;
  }

  std::int32_t count(std::string_view text) const override {
    return static_cast<std::int32_t>(tokenizer_.encode(text, kPlain).size());
  }
  bool exact() const override { return true; }
  std::int32_t added() const override {
    const EncodeOptions whole{.add_special_tokens = true, .parse_special_tokens = false};
    return static_cast<std::int32_t>(tokenizer_.encode("the", whole).size()) - count("the");
  }

 private:
  static constexpr EncodeOptions kPlain{.add_special_tokens = false, .parse_special_tokens = false};
  MadeText counted(std::string text) const {
    const std::int32_t tokens = count(text);
    return {std::move(text), tokens};
  }
  const Tokenizer& tokenizer_;
  std::vector<TokenId> allowed_;
};

class WordSource final : public TextSource {
 public:
  MadeText extend(std::string_view prefix, std::int32_t length, Rng& rng) override {
    MadeText made{std::string(prefix), -1};
    for (std::int32_t i = words_in(prefix); i < length; ++i) {
      if (!made.text.empty()) made.text += ' ';
      made.text += kWords[rng.below(kWords.size())];
    }
    return made;
  }

  MadeText repeat_one(std::int32_t length, Rng& rng) override {
    const std::string_view word = kWords[rng.below(kWords.size())];
    MadeText made;
    for (std::int32_t i = 0; i < length; ++i) {
      if (i > 0) made.text += ' ';
      made.text += word;
    }
    return made;
  }

  std::int32_t count(std::string_view text) const override {
    return static_cast<std::int32_t>((text.size() + 3) / 4);
  }
  bool exact() const override { return false; }

 private:
  static std::int32_t words_in(std::string_view text) {
    return text.empty() ? 0
                        : 1 + static_cast<std::int32_t>(std::count(text.begin(), text.end(), ' '));
  }
};

// Words whose number somebody else says.
class CountedSource final : public TextSource {
 public:
  CountedSource(TokenCounter counter, std::int32_t added)
      : counter_(std::move(counter)), added_(added) {}

  MadeText extend(std::string_view prefix, std::int32_t length, Rng& rng) override {
    return fill(std::string(prefix), length, [&] { return kWords[rng.below(kWords.size())]; });
  }

  MadeText repeat_one(std::int32_t length, Rng& rng) override {
    const std::string_view word = kWords[rng.below(kWords.size())];
    return fill("", length, [&] { return word; });
  }

  std::int32_t count(std::string_view text) const override {
    const auto counted = counter_(text, false);
    return counted ? *counted : -1;
  }
  bool exact() const override { return true; }
  std::int32_t added() const override { return added_; }

 private:
  // Puts words behind `text`, or takes them away again, by what is missing or too many; then
  // letters, since a word may be several tokens.
  template <typename NextWord>
  MadeText fill(std::string text, std::int32_t length, NextWord next_word) const {
    std::vector<std::size_t> before;  // sizes of the text before each word
    std::int32_t tokens = count(text);
    const std::int32_t of_prefix = tokens;
    double a_word = 1;  // tokens, as measured so far
    for (int round = 0; round < kMaxRounds && tokens >= 0 && tokens != length; ++round) {
      if (tokens > length && before.empty()) break;            // the prefix alone is longer
      if (tokens < length && length - tokens < a_word) break;  // less than a word is missing
      const auto words = std::max<std::int64_t>(1, std::lround(std::abs(length - tokens) / a_word));
      for (std::int64_t i = 0; i < words && tokens < length; ++i) {
        before.push_back(text.size());
        if (!text.empty()) text += ' ';
        text += next_word();
      }
      for (std::int64_t i = 0; i < words && tokens > length && !before.empty(); ++i) {
        text.resize(before.back());
        before.pop_back();
      }
      tokens = count(text);
      if (!before.empty())
        a_word = std::max(1.0, (tokens - of_prefix) / static_cast<double>(before.size()));
    }
    for (; tokens > length && !before.empty(); tokens = count(text)) {
      text.resize(before.back());
      before.pop_back();
    }
    return fill_up(std::move(text), tokens, length, [&](const std::string& t) { return count(t); });
  }

  TokenCounter counter_;
  std::int32_t added_;
};

}  // namespace

std::unique_ptr<TextSource> make_token_source(const Tokenizer& tokenizer) {
  return std::make_unique<TokenTextSource>(tokenizer);
}
Result<std::unique_ptr<TextSource>> make_counted_source(TokenCounter counter) {
  TRY(const std::int32_t plain, counter("the", false));
  TRY(const std::int32_t whole, counter("the", true));
  return std::make_unique<CountedSource>(std::move(counter), whole - plain);
}
std::unique_ptr<TextSource> make_word_source() { return std::make_unique<WordSource>(); }

Result<LengthRange> length_range(std::int32_t length, double ratio, RangeMeaning meaning,
                                 std::int32_t least) {
  const bool around = meaning == RangeMeaning::kAround;
  if (length < 0 || length > kMaxLength)
    return fail(ErrorCode::kInvalid, "a length of {} tokens, allowed are 0 to {}", length,
                kMaxLength);
  if (!(ratio >= 0) || (around ? ratio >= 1 : ratio > 1))
    return fail(ErrorCode::kInvalid, "range ratio {}, allowed are 0 to 1{}", ratio,
                around ? " (below 1)" : "");
  const double l = length;
  const double low = std::floor(around ? l * (1 - ratio) : l * ratio);
  const double high = around ? std::ceil(l * (1 + ratio)) : l;
  return LengthRange{std::max(static_cast<std::int32_t>(low), least),
                     std::max(static_cast<std::int32_t>(high), least)};
}

std::int32_t draw_length(const LengthRange& range, Rng& rng) {
  const auto width = static_cast<std::uint64_t>(range.high - range.low + 1);
  return range.low + static_cast<std::int32_t>(rng.below(width));
}

}  // namespace saccade::bench
