// Keys and values that are kept in bytes: what a token's key, or value, of one kv head becomes in
// the pool. This is the definition; every device stores the same bits.
//
// A row of head_dim numbers becomes as many codes and one f32 scale, which follow from that row
// alone: so a token is stored the same in every batch, chunk and recomputation. A number is about
// code * scale, where scale = largest magnitude / 127 (kI8) or / 448 (kE4m3), the largest number
// that a code stands for. kI8 is rounded as activations are (ops/formats/int8_rows.h); kE4m3 to the
// nearest float8_e4m3 to value * (448 / largest), ties to even. A row whose largest magnitude is
// under kInt8Least becomes zeros; one with an infinity or a NaN gets a NaN for its scale.
//
// A block of the pool is K codes [kv_heads, block_size, head_dim], V codes of the same shape, then
// K scales [kv_heads, block_size] and V scales, in the machine's order of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace saccade {

constexpr bool is_coded(DType cache) { return cache == DType::kI8 || cache == DType::kE4m3; }

// Bytes beside the elements of one token's key, or value, of one kv head.
constexpr std::int64_t kv_scale_bytes(DType cache) {
  return is_coded(cache) ? static_cast<std::int64_t>(sizeof(float)) : 0;
}

// Elements of a block: of KvLayer::blocks' columns.
constexpr std::int64_t kv_block_elements(DType cache, std::int64_t block_size,
                                         std::int64_t kv_heads, std::int64_t head_dim) {
  return 2 * kv_heads * block_size * (head_dim + kv_scale_bytes(cache));
}

// codes: [row.size()]. Returns the scale.
float round_kv_row(std::span<const float> row, DType cache, std::span<std::uint8_t> codes);

}  // namespace saccade
