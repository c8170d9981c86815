// From tokens back to text: what each token stands for, and how neighbours join.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/patterns/regex.h"
#include "text/tokenizer.h"

namespace saccade {

// Immutable; any thread. Chains of the shape: rewrite each token, turn byte tokens to bytes, join,
// strip the front.
class Decoder {
 public:
  // The `decoder` member of a tokenizer.json; null: tokens with a space between. kUnsupported
  // names a type, or an order of types, that is not done.
  static Result<Decoder> parse(const json::value* from);

  // What one token adds, as bytes; `first`: no token comes before it.
  std::string piece(std::string_view token, bool first) const;
  // The byte that a token like "<0x0A>" is, -1 for others.
  int byte_of(std::string_view token) const;
  // Whether piece() depends on `first`.
  bool first_differs() const { return first_differs_; }

  // Adds a piece to the text. `byte`: it came from a byte token.
  void append(std::string_view piece, bool byte, DecodeState& state, std::string& out) const;
  void finish(DecodeState& state, std::string& out) const;

 private:
  enum class Join : std::uint8_t {
    kText,      // pieces are text
    kBytes,     // pieces are bytes; what is not UTF-8 becomes U+FFFD by maximal parts
    kByteRuns,  // runs of byte tokens are text if they are UTF-8, else U+FFFD a byte
    kSpaced,    // pieces are text with a space between
  };
  struct Step {
    enum class Kind : std::uint8_t { kReplace, kMetaspace, kStrip, kWordPiece, kByteLevel };
    Kind kind = Kind::kReplace;
    std::shared_ptr<const Regex> pattern;  // kReplace
    std::string text;                      // replacement, the space's stand-in, prefix, or stripped
    int start = 0;                         // kStrip: at most so many at the front and the back
    int stop = 0;
    bool flag = false;  // kMetaspace: the first token loses its spaces; kWordPiece: cleanup
  };

  Result<void> add(const json::value& from);
  static Result<Step> parse_step(const std::string& type, const json::object& from);
  void emit(std::string_view text, DecodeState& state, std::string& out) const;

  std::vector<Step> steps_;
  Join join_ = Join::kText;
  bool fused_ = false;       // a step that follows sees one text, not tokens
  std::string strip_front_;  // this text, up to strip_count_ times
  int strip_count_ = 0;
  bool first_differs_ = false;
};

}  // namespace saccade
