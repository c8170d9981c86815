// What attention by a kernel of others is given: the op's own arguments, the kernel's tiles, and
// lists of who computes which tile (flash_plan.h). Plain, so that it may be kept and compared.
#pragma once

#include "ops/cuda/kernels.h"

namespace saccade::cuda {

// A kernel that there is: over pages, causal; or over rows, both ways.
struct FlashForm {
  bool paged = false;
  std::int32_t head_dim = 0;
  std::int32_t query_rows = 0;  // of a tile; one head's
  std::int32_t key_rows = 0;    // that are fetched and multiplied at a time

  bool operator==(const FlashForm&) const = default;
};

// A piece of work is one tile of queries of one head. Thread block b of the launch does those from
// work_begins[b] to work_begins[b + 1], in this order. Addresses are the device's.
struct FlashLists {
  const std::int32_t* work_begins = nullptr;  // [blocks + 1]
  const std::int32_t* tiles = nullptr;      // [works], as are all below: its sequence's how manieth
  const std::int32_t* heads = nullptr;      // of the queries
  const std::int32_t* sequences = nullptr;  // which it is
  const std::int32_t* query_begins = nullptr;  // the sequence's first row of q and out
  const std::int32_t* query_counts = nullptr;
  // Where its blocks begin in `blocks`, or its first key row.
  const std::int32_t* key_begins = nullptr;
  const std::int32_t* key_counts = nullptr;  // tokens; of pages the queries are the last of them
  std::int64_t works = 0;
};

// Of `attention` sequences, tiles and seen are the own kernel's; all else is taken from it.
struct FlashArgs {
  AttentionKernelArgs attention;
  FlashForm form;
  FlashLists lists;
};

}  // namespace saccade::cuda
