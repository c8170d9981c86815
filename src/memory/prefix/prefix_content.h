// What a sequence consists of, as far as the names of its cached blocks go.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace saccade {

// Placeholders [begin, begin + tokens) that stand for rows of an image, in the stream's own count.
struct PrefixImage {
  std::int64_t begin = 0;
  std::int64_t tokens = 0;
  std::int64_t first_row = 0;
  Digest identity{};  // content, layout key and model
};

// The adapter that keys and values are computed with.
struct PrefixAdapter {
  std::string_view identity;  // empty: none
  std::string_view name;      // as requests have it; no part of names of blocks
  std::int64_t number = 0;    // likewise
};

// What a sequence consists of, for naming its blocks. Views: they must outlive the call.
struct PrefixContent {
  std::span<const std::int32_t> tokens;         // prompt and generated
  std::span<const PrefixImage> images;          // ascending, in `tokens`
  std::span<const PrefixImage> encoder_images;  // ascending, in the encoder stream
  std::string_view salt;
  std::int64_t bidirectional_prefix = 0;  // tokens; 0: causal
  bool is_long = false;                   // over the length from which keys are others (LongRoPE)
  PrefixAdapter adapter = {};
};

// The root's name for text blocks of `content`: the salt, and what every token depends on besides
// the tokens before it (a bidirectional prefix, cross-attended images, being long, an adapter).
std::string prefix_root(const PrefixContent& content);

// What one node stands for.
struct BlockContent {
  std::span<const std::int32_t> tokens;
  struct Mark {
    Digest identity{};
    std::int32_t offset = 0;  // of the first such token in the block
    std::int32_t tokens = 0;
    std::int64_t first_row = 0;  // of the image, at `offset`
    bool operator==(const Mark&) const = default;
  };
  std::vector<Mark> marks;
};

// Tokens [begin, begin + count) of a stream. An encoder stream has no token ids, only images.
BlockContent block_content(std::span<const std::int32_t> tokens,
                           std::span<const PrefixImage> images, std::int64_t begin,
                           std::int64_t count);

// The last position in (after, until] where an image ends; 0 when there is none.
std::int64_t last_image_end(std::span<const PrefixImage> images, std::int64_t after,
                            std::int64_t until);

// As names of roots: text and encoder blocks of equal salt never share a chain.
std::string encoder_root(const PrefixContent& content);

}  // namespace saccade
