// A vocabulary: token strings by id, ids by token string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace saccade {

// Filled by one thread, then read by any. Ids may have holes.
class TokenTable {
 public:
  static constexpr TokenId kMaxId = (TokenId{1} << 22) - 1;
  static constexpr std::size_t kMaxTokenBytes = 16 * 1024;

  // kInvalid: an id or a string that is there already, or an id outside [0, kMaxId]. kTooLarge: a
  // token over kMaxTokenBytes.
  Result<void> add(std::int64_t id, std::string_view token);

  std::optional<TokenId> find(std::string_view token) const;
  // Empty for an id that has no token (and for the token that is empty).
  std::string_view token(TokenId id) const;
  bool contains(TokenId id) const;

  std::size_t size() const { return count_; }
  TokenId end_id() const { return static_cast<TokenId>(places_.size()); }  // past the largest
  std::size_t longest_bytes() const { return longest_bytes_; }

 private:
  static constexpr std::uint32_t kNowhere = 0xFFFFFFFF;
  struct Place {
    std::uint32_t offset = kNowhere;
    std::uint32_t length = 0;
  };
  std::size_t slot_of(std::string_view token) const;
  void grow();

  std::string bytes_;                                          // all tokens, one after another
  std::vector<Place> places_;                                  // by id
  std::vector<TokenId> slots_ = std::vector<TokenId>(16, -1);  // open addressing, at most half full
  std::size_t count_ = 0;
  std::size_t longest_bytes_ = 0;
};

}  // namespace saccade
