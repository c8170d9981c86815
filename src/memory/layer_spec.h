// What one layer keeps in the cache for a sequence, in plain numbers.
#pragma once

#include <cstdint>

namespace saccade {

enum class CacheKind : std::uint8_t {
  kFull,             // keys and values of every token
  kSlidingWindow,    // keys and values of the last `window` tokens
  kCrossAttention,   // keys and values of every encoder token, written once
  kState,            // one fixed-size recurrent state a sequence, and checkpoints of it
  kVisionEmbedding,  // encoder output of image tokens that are not computed yet
};

struct LayerSpec {
  CacheKind kind = CacheKind::kFull;
  std::int64_t window = 0;       // tokens; kSlidingWindow only
  std::int64_t kv_heads = 0;     // attention kinds
  std::int64_t head_dim = 0;     // attention kinds: elements
  std::int64_t hidden = 0;       // kVisionEmbedding: elements of a row
  std::int64_t dtype_bytes = 2;  // of one element
  std::int64_t state_bytes = 0;  // kState
  std::int64_t scale_bytes = 0;  // attention kinds: beside a token's key, or value, of one head

  // Bytes of one token; 0 for kState.
  std::int64_t token_bytes() const {
    switch (kind) {
      case CacheKind::kFull:
      case CacheKind::kSlidingWindow:
      case CacheKind::kCrossAttention:
        return 2 * kv_heads * (head_dim * dtype_bytes + scale_bytes);
      case CacheKind::kVisionEmbedding:
        return hidden * dtype_bytes;
      case CacheKind::kState:
        return 0;
    }
    return 0;
  }

  // Bytes of one page of `tokens` tokens.
  std::int64_t page_bytes(std::int64_t tokens) const {
    return kind == CacheKind::kState ? state_bytes : tokens * token_bytes();
  }

  bool operator==(const LayerSpec&) const = default;
};

}  // namespace saccade
