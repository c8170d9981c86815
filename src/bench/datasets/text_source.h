// Made-up text of a wanted length in tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/rng.h"
#include "text/tokenizer.h"

namespace saccade::bench {

struct MadeText {
  std::string text;
  std::int32_t tokens = -1;  // as counted; -1 without a tokenizer
};

// One thread.
class TextSource {
 public:
  virtual ~TextSource() = default;
  // `length` tokens; without a tokenizer, words that most vocabularies hold as one token.
  MadeText make(std::int32_t length, Rng& rng) { return extend("", length, rng); }
  // One token repeated `length` times.
  virtual MadeText repeat_one(std::int32_t length, Rng& rng) = 0;
  // `prefix` followed by made text, `length` tokens together.
  virtual MadeText extend(std::string_view prefix, std::int32_t length, Rng& rng) = 0;
  // Tokens of a text; about a quarter of its bytes without a tokenizer.
  virtual std::int32_t count(std::string_view text) const = 0;
  virtual bool exact() const = 0;  // counts are the tokenizer's
  // Special tokens that a server puts around the text of a completion (BOS).
  virtual std::int32_t added() const { return 0; }
};

// Text from `tokenizer`, which must outlive it: runs of the vocabulary from a random place on, so
// that no two texts begin alike; decoded and encoded until the count is right. What ten rounds of
// that leave wrong is cut, and filled up with single letters.
std::unique_ptr<TextSource> make_token_source(const Tokenizer& tokenizer);
std::unique_ptr<TextSource> make_word_source();

// Tokens of a text by somebody else's count, with what a completion adds or without.
using TokenCounter = std::function<Result<std::int32_t>(std::string_view text, bool with_added)>;
// Words, taken away and put in until `counter` says what was wanted, at most ten times; then single
// letters. Fails when the counter does.
Result<std::unique_ptr<TextSource>> make_counted_source(TokenCounter counter);

// How a range ratio r around a length L is meant. The same flag means opposite things.
enum class RangeMeaning {
  kAround,  // vLLM: floor(L (1 - r)) to ceil(L (1 + r)); r in [0, 1), 0 is fixed
  kUpTo,    // vLLM of 2024, SGLang: floor(L r) to L; r in [0, 1], 1 is fixed
};
struct LengthRange {
  std::int32_t low = 0;
  std::int32_t high = 0;
};
// At least `least` on both ends.
Result<LengthRange> length_range(std::int32_t length, double ratio, RangeMeaning meaning,
                                 std::int32_t least);
std::int32_t draw_length(const LengthRange& range, Rng& rng);  // both ends included

}  // namespace saccade::bench
