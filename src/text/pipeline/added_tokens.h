// Tokens that are looked for in the text itself, before any model sees it: "<|im_end|>" and the
// like.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/models/token_table.h"
#include "text/pipeline/normalizer.h"

namespace saccade {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only between characters that are not of a word
  bool lstrip = false;       // takes the blanks before it along
  bool rstrip = false;       // and those after it
  bool normalized = true;    // looked for in the normalised text, else in the text as given
  bool special = false;
  bool operator==(const AddedToken&) const = default;
};

// One entry of `added_tokens`, or of `added_tokens_decoder` whose keys are the ids.
struct AddedTokenEntry {
  std::int64_t id = 0;
  AddedToken token;
};

Result<std::vector<AddedTokenEntry>> parse_added_tokens(const json::value& added_tokens);
Result<std::vector<AddedTokenEntry>> parse_added_tokens_decoder(const json::value& decoder);

// Finds the longest of several strings at the leftmost place where any begins.
class TokenMatcher {
 public:
  // The first of two equal strings keeps its value. An empty string is never found.
  void add(std::string_view text, TokenId value);
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    TokenId value = -1;
  };
  std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  struct Node {
    TokenId value = -1;
    std::vector<std::pair<char, std::uint32_t>> next;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> begins_{};  // whether any string begins with this byte
};

// Immutable after build; any thread.
class AddedTokens {
 public:
  // A stretch of text, or a token found in it (id >= 0).
  struct Segment {
    std::string_view text;
    TokenId id = -1;
  };

  enum class Ids : std::uint8_t {
    kNext,      // after the largest, as the reference does for tokenizer.json
    kAsWritten  // what the entry says
  };

  // A token that the vocabulary or an earlier entry has keeps that id; `ids` is for the others. An
  // entry that says another id than it gets is told in a warning. kInvalid: two entries with one
  // id, or an id out of range.
  static Result<AddedTokens> build(const std::vector<AddedTokenEntry>& entries,
                                   const TokenTable& vocabulary, const Normalizer* normalizer,
                                   Ids ids = Ids::kNext);

  // Appends the segments of `text`, which cover it but for nothing.
  void split_given(std::string_view text, bool parse_special, std::vector<Segment>& out) const {
    split(given_, text, parse_special, out);
  }
  void split_normalized(std::string_view text, bool parse_special,
                        std::vector<Segment>& out) const {
    split(normalized_, text, parse_special, out);
  }

  std::optional<TokenId> find(std::string_view content) const;
  const AddedToken* token(TokenId id) const;  // null when `id` is not an added token
  bool is_special(std::string_view content) const;
  TokenId end_id() const { return end_id_; }

 private:
  void split(const TokenMatcher& matcher, std::string_view text, bool parse_special,
             std::vector<Segment>& out) const;

  std::unordered_map<TokenId, AddedToken> by_id_;
  std::unordered_map<std::string, TokenId> by_content_;
  std::unordered_set<std::string> special_;
  TokenMatcher given_;
  TokenMatcher normalized_;
  TokenId end_id_ = 0;
};

}  // namespace saccade
