// What the attention kernels share: which query row a tile's row is, what it sees, and where a
// token's key or value lies.
#pragma once

#include "ops/cuda/kernel.h"

namespace saccade::cuda {

struct RowPlace {
  bool inside = false;  // of the sequence
  std::int64_t row = 0;
  std::int64_t member = 0;  // which head of the group
  std::int64_t begin = 0;   // tokens it sees
  std::int64_t end = 0;
};

// `index` counts (row, head of the group).
SACCADE_DEVICE RowPlace place_of(const AttentionKernelArgs& args, const AttentionSequence& sequence,
                                 std::int64_t index, std::int64_t group) {
  RowPlace place;
  const std::int64_t row = index / group;
  if (row >= sequence.row_count) return place;
  place.inside = true;
  place.row = sequence.row_begin + row;
  place.member = index % group;
  place.begin = args.seen[2 * place.row];
  place.end = args.seen[2 * place.row + 1];
  return place;
}

// Null where no block holds it any more.
template <typename T>
SACCADE_DEVICE const T* token_row(const AttentionKernelArgs& args,
                                  const AttentionSequence& sequence, std::int64_t kv_head,
                                  bool values, std::int64_t token) {
  const KvPages& pages = args.pages;
  if (pages.base == nullptr) {
    const Rows& rows = values ? args.v : args.k;
    return static_cast<const T*>(rows.data) + (sequence.first_block + token) * rows.stride +
           kv_head * args.head_dim;
  }
  const std::int64_t block = args.blocks[sequence.first_block + token / pages.block_size];
  if (block < 0) return nullptr;
  const std::int64_t row =
      ((values ? pages.kv_heads : 0) + kv_head) * pages.block_size + token % pages.block_size;
  return reinterpret_cast<const T*>(pages.base + block * pages.block_stride) + row * pages.head_dim;
}

}  // namespace saccade::cuda
