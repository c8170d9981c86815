// What the attention kernels share: which query row a tile's row is, what it sees, and where a
// token's key or value, and its scale, lie.
#pragma once

#include "ops/cuda/attention/kv_codes.h"

namespace saccade::cuda {

struct RowPlace {
  bool inside = false;  // of the sequence
  std::int32_t row = 0;
  std::int32_t member = 0;  // which head of the group
  std::int32_t begin = 0;   // tokens it sees
  std::int32_t end = 0;
};

// `index` counts (row, head of the group). Quotients here and below are of 32 bits, which rows and
// tokens have: one of 64 is a call.
SACCADE_DEVICE RowPlace place_of(const AttentionKernelArgs& args, const AttentionSequence& sequence,
                                 std::int64_t index, std::int64_t group) {
  RowPlace place;
  const auto row = static_cast<std::int32_t>(index) / static_cast<std::int32_t>(group);
  if (row >= sequence.row_count) return place;
  place.inside = true;
  place.row = sequence.row_begin + row;
  place.member = static_cast<std::int32_t>(index) % static_cast<std::int32_t>(group);
  const std::int32_t* const seen = args.seen + 2 * std::int64_t{place.row};
  place.begin = seen[0];
  place.end = seen[1];
  return place;
}

// Which of a sequence's blocks has a token, and where.
SACCADE_DEVICE std::uint32_t block_of(const KvPages& pages, std::int64_t token) {
  return static_cast<std::uint32_t>(token) / static_cast<std::uint32_t>(pages.block_size);
}
SACCADE_DEVICE std::uint32_t slot_of(const KvPages& pages, std::int64_t token) {
  return static_cast<std::uint32_t>(token) % static_cast<std::uint32_t>(pages.block_size);
}

// Among all rows of a page's keys and values.
SACCADE_DEVICE std::int64_t page_row_of(const KvPages& pages, std::int64_t kv_head, bool values,
                                        std::int64_t token) {
  return ((values ? pages.kv_heads : 0) + kv_head) * pages.block_size + slot_of(pages, token);
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
  const std::int64_t block = args.blocks[sequence.first_block + block_of(pages, token)];
  if (block < 0) return nullptr;
  return reinterpret_cast<const T*>(pages.base + block * pages.block_stride) +
         page_row_of(pages, kv_head, values, token) * pages.head_dim;
}

// What that row's codes are multiplied by; 0 where no block holds it any more.
SACCADE_DEVICE float token_scale(const AttentionKernelArgs& args, const AttentionSequence& sequence,
                                 std::int64_t kv_head, bool values, std::int64_t token) {
  const KvPages& pages = args.pages;
  const std::int64_t block = args.blocks[sequence.first_block + block_of(pages, token)];
  if (block < 0) return 0;
  return read_scale(scale_place(pages, block, page_row_of(pages, kv_head, values, token)));
}

}  // namespace saccade::cuda
