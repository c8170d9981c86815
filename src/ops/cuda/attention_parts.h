// How blocks share the keys of a call of attention.
//
// A sequence's tokens are cut into splits of a fixed length, counted from its first token. A row's
// softmax begins anew in each split that it sees any of, and the splits' results are joined in
// their order (attention_join.h). So a row's bits depend on its own sequence alone, and who
// computes which split is free:
//   a block a tile    it goes over the splits in order, and keeps what they make so far in scratch
//   a block a split   each leaves its result in scratch, and a second kernel joins them
#pragma once

#include <cstdint>
#include <initializer_list>

namespace saccade::cuda {

// A whole number of every kernel's tiles of keys. Bits depend on it; nothing else may change it.
constexpr std::int32_t kAttentionSplitTokens = 2048;

// A block's work: one split of a tile. Tile -1: none.
struct AttentionPart {
  std::int32_t tile;
  std::int32_t split;    // tokens [split, split + 1) * split_tokens; -1: all that the tile sees
  std::int32_t partial;  // its first row in scratch; -1: the tile has no other split
};

// A tile's results in scratch, split after split.
struct AttentionMerge {
  std::int32_t partial;
  std::int32_t splits;  // below 2: there is nothing to join
};

// Columns that the tensor cores' kernels have for a head of `head_dim`, up to 256.
constexpr int attention_width(std::int64_t head_dim) {
  for (const int width : {64, 80, 96, 128})
    if (head_dim <= width) return width;
  return 256;
}
// Floats behind a partial row's sums: largest score and sum of the weights, once for each lane that
// has a part of the row.
constexpr int kPartialStateFloats = 8;

struct AttentionSplits {
  std::int32_t tokens = kAttentionSplitTokens;  // tests have shorter ones
  const AttentionPart* parts = nullptr;         // [part_count]; null: blocks go over whole tiles
  std::int64_t part_count = 0;
  const AttentionMerge* merges = nullptr;  // [tile_count], beside parts
  std::int64_t merge_rows = 0;             // of the largest tile that is joined
  // Without parts: tiles that are launched at a time, because each has a place in scratch; 0: all,
  // and none sees a second split.
  std::int64_t band = 0;
  // Rows of attention_width() + kPartialStateFloats, one a key head: of parts, or
  // kAttentionTileRows for each tile of a band.
  float* partials = nullptr;
};

}  // namespace saccade::cuda
