// How blocks share the keys of a call of attention.
//
// A sequence's tokens are cut into splits of a fixed length, counted from its first token. A row's
// softmax begins anew in each split that it sees any of, and the splits' results are joined in
// their order (attention_join.h). So a row's bits depend on its own sequence alone, and who
// computes which split is free:
//   a block a tile    it goes over the splits in order, and joins them itself
//   a block a split   each leaves its result in scratch; the last of a tile's to end joins them,
//                     or a second kernel
#pragma once

#include <cstdint>
#include <initializer_list>

namespace saccade::cuda {

// A whole number of every kernel's tiles of keys. Bits depend on it; nothing else may change it.
// Short ones serve decode of few sequences, which has no other blocks to give a GPU; a block that
// goes over many of them joins some 3 % more often than with 512.
constexpr std::int32_t kAttentionSplitTokens = 256;

// A block's work: one split of a tile, or all of it. Tile -1: none.
struct AttentionPart {
  std::int32_t tile;
  std::int32_t split;  // tokens [split, split + 1) * split_tokens; -1: all that the tile sees
  // First of its rows in scratch: for a split's result, or of a block that goes over all of them
  // and has no registers for what they make so far; -1: nothing goes there.
  std::int32_t partial;
};

// A tile's results in scratch, split after split.
struct AttentionMerge {
  std::int32_t partial;
  std::int32_t splits;  // below 2: there is nothing to join
  std::int32_t rows;    // of each
};

// Whether the last block of a tile of few rows to end joins its results: its four warps take a row
// each and kJoinedAhead splits at a time, and what is waited for may be no longer than another
// launch takes. A guess that no GPU has measured.
constexpr std::int32_t kJoinedAhead = 8;
constexpr std::int32_t kMaxJoinTrips = 4;
constexpr bool joined_by_last(const AttentionMerge& merge) {
  return (merge.rows + 3) / 4 * ((merge.splits + kJoinedAhead - 1) / kJoinedAhead) <= kMaxJoinTrips;
}

// Columns that the tensor cores' kernels have for a head of `head_dim`, up to 256.
constexpr int attention_width(std::int64_t head_dim) {
  for (const int width : {64, 80, 96, 128})
    if (head_dim <= width) return width;
  return 256;
}
// Up to this width a block that goes over a tile's splits keeps what they make in registers, above
// it in scratch.
constexpr int kMaxJoinedWidth = 128;
// Floats behind a partial row's sums: largest score and sum of the weights, once for each lane that
// has a part of the row.
constexpr int kPartialStateFloats = 8;

struct AttentionSplits {
  std::int32_t tokens = kAttentionSplitTokens;  // tests have shorter ones
  const AttentionPart* parts = nullptr;         // [part_count]; null: blocks go over whole tiles
  std::int64_t part_count = 0;
  std::int64_t few_parts = 0;              // the first ones: of tiles of few rows
  const AttentionMerge* merges = nullptr;  // [tile_count], beside parts
  std::int64_t merge_rows = 0;  // of the largest tile that is joined by a second kernel; 0: none
  // [few_tiles][kv_heads], beside parts: how many of a tile's blocks have ended. Zero before and
  // after every call.
  std::uint32_t* ended = nullptr;
  // Without parts: tiles of many rows that are launched at a time, because each has a place in
  // scratch; 0: all, and none needs one.
  std::int64_t band = 0;
  // Rows of attention_width() + kPartialStateFloats, one a key head: of parts, or
  // kAttentionTileRows for each tile of a band.
  float* partials = nullptr;
};

}  // namespace saccade::cuda
