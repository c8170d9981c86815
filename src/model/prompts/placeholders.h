// Image placeholders in prompts: found, counted, expanded; and kept from users who write one out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/prompts/prompt.h"
#include "text/tokenizer.h"

namespace saccade {

// `user_text` with every occurrence of a literal marked, so that encode_guarded takes it as text.
// The marks are noncharacters of Unicode, which pass through templates; where the text has such
// characters itself they are escaped.
std::string guard(std::string_view user_text, std::span<const std::string_view> literals);

// Token ids of a rendered prompt. Special tokens are parsed, except inside marks; marks and escapes
// are undone.
std::vector<TokenId> encode_guarded(const Tokenizer& tokenizer, std::string_view rendered,
                                    bool add_special_tokens);

// Ids with the i-th `placeholder` repeated counts[i] times, and where each image stands. kInvalid
// with both numbers when there are not as many placeholders as counts.
struct ExpandedPrompt {
  std::vector<TokenId> ids;
  std::vector<ImageSpan> images;
};
Result<ExpandedPrompt> expand_placeholders(std::span<const TokenId> ids, TokenId placeholder,
                                           std::span<const std::int64_t> counts);

// Positions for M-RoPE (temporal, height, width): text advances all three axes by one a token; a
// grid spans its extents from where it starts, and what follows starts after the largest.
class GridPositions {
 public:
  void add_text(std::int64_t tokens);
  void add_grid(std::int64_t t, std::int64_t h, std::int64_t w);
  // A grid whose planes stand at these times, ascending from 0.
  void add_grid(std::span<const std::int32_t> times, std::int64_t h, std::int64_t w);
  // Distance from a token's index to its position for all that follows.
  std::int64_t delta() const { return next_ - static_cast<std::int64_t>(axes_[0].size()); }
  std::vector<std::vector<std::int32_t>> take() { return std::move(axes_); }

 private:
  std::vector<std::vector<std::int32_t>> axes_{3};
  std::int64_t next_ = 0;
};

}  // namespace saccade
