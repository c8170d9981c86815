// Which block of a call of attention computes which split of its keys (attention_parts.h), decided
// from counts alone; results have the same bits whatever is decided. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/cuda/kernels.h"

namespace saccade::cuda {

// Most scratch that a call has for results of splits.
constexpr std::int64_t kMaxPartialBytes = std::int64_t{64} << 20;
// Blocks that a GPU is taken to work at side by side (an H100 has so many multiprocessors): a tile
// that has more splits than all have for each of these is shared.
constexpr std::int64_t kAttentionBlocks = 132;

// A call of attention, as its lists say.
struct AttentionCall {
  std::span<const AttentionTile> tiles;
  std::int64_t few_tiles = 0;  // as AttentionKernelArgs has them
  std::span<const AttentionSequence> sequences;
  std::span<const std::int32_t> seen;  // [rows][2]
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 64;
  std::int32_t split_tokens = kAttentionSplitTokens;
  // Parts that are launched at least, most of them nobody's: so that calls of one kind launch the
  // same blocks.
  std::int64_t least_parts = 0;
};

// Neither parts nor a band: blocks go over whole tiles, and need no scratch.
struct AttentionSplitPlan {
  std::vector<AttentionPart> parts;  // a power of two of them, nobody's last
  std::int64_t few_parts = 0;        // as AttentionSplits has them
  std::vector<AttentionMerge> merges;
  std::int64_t merge_rows = 0;
  std::int64_t ended = 0;  // numbers of AttentionSplits::ended
  std::int64_t band = 0;
  std::size_t partial_bytes = 0;  // a power of two
};

// Each split by a block of its own, of tiles that have more than `max_walked`.
AttentionSplitPlan share_splits(const AttentionCall& call, std::int64_t max_walked = 1);
// All splits of a tile by one block, as many tiles at a time as scratch holds, or `max_tiles`.
AttentionSplitPlan walk_splits(const AttentionCall& call, std::int64_t max_tiles);
// Either, or neither.
AttentionSplitPlan plan_splits(const AttentionCall& call);

}  // namespace saccade::cuda
