// Where the paged pool has one layer's keys and values.
#pragma once

#include <cstdint>

#include "ops/formats/kv_rows.h"
#include "tensor/tensor.h"

namespace saccade {

// Keys and values of one layer inside the paged pool: a row of `blocks` is K [kv_heads, block_size,
// head_dim], then V of the same shape, then of bytes (kI8, kE4m3) their scales
// (ops/formats/kv_rows.h); rows may be far apart (other layers lie between them).
struct KvLayer {
  View blocks;                  // [pool's blocks, kv_block_elements()]
  std::int64_t block_size = 0;  // tokens
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  DType dtype() const { return blocks.dtype(); }
  bool coded() const { return is_coded(dtype()); }
};

// Where a block has the rows of one kv head: bytes from the block's begin, of the token in `slot`
// of its block_size places.
class KvHeadRows {
 public:
  KvHeadRows(const KvLayer& layer, std::int64_t kv_head)
      : row_bytes_(layer.head_dim * static_cast<std::int64_t>(size_of(layer.dtype()))),
        rows_(layer.kv_heads * layer.block_size),
        first_(kv_head * layer.block_size) {}
  std::int64_t key(std::int64_t slot) const { return (first_ + slot) * row_bytes_; }
  std::int64_t value(std::int64_t slot) const { return key(slot) + rows_ * row_bytes_; }
  // Of bytes alone.
  std::int64_t key_scale(std::int64_t slot) const {
    return 2 * rows_ * row_bytes_ + (first_ + slot) * static_cast<std::int64_t>(sizeof(float));
  }
  std::int64_t value_scale(std::int64_t slot) const {
    return key_scale(slot) + rows_ * static_cast<std::int64_t>(sizeof(float));
  }

 private:
  std::int64_t row_bytes_;
  std::int64_t rows_;  // of keys in a block
  std::int64_t first_;
};

}  // namespace saccade
