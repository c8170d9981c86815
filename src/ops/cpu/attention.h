// Attention of a tile of queries over a range of tokens, shared by the paged and the segment op.
//
// A tile is up to some 192 query rows (tokens x the heads that share a kv head), so that one read
// of keys and values serves them all. Tokens are taken in chunks of kChunkTokens, and chunks in
// splits of kSplitTokens, both at fixed positions from the sequence's first token. A split starts
// from nothing; splits are joined in order. So what a row computes depends on which tokens it sees,
// and not on the rows beside it, on how its sequence was cut into steps, or on whether splits ran
// on one thread or several.
#pragma once

#include "ops/cpu/cpu_backend.h"

namespace saccade::cpu {

constexpr std::int64_t kSplitTokens = 512;
constexpr std::int64_t kTileQueries = 192;

// Queries of one tile: everything but memory.
struct QueryTile {
  Index rows = 0;
  Index head_dim = 0;
  const float* queries = nullptr;  // [rows, head_dim], scale included
  const Index* begin = nullptr;    // [rows] row r sees tokens [begin[r], end[r])
  const Index* end = nullptr;
  Index first = 0;  // smallest begin
  Index last = 0;   // largest end
  DType type = DType::kF32;
  float softcap = 0;

  std::int64_t first_split() const { return first / kSplitTokens; }
  std::int64_t end_split() const { return (last + kSplitTokens - 1) / kSplitTokens; }
};

// Softmax-weighted sum of values so far, for each row of a tile.
struct AttentionState {
  float* max = nullptr;  // [rows]
  float* sum = nullptr;  // [rows]
  float* out = nullptr;  // [rows, cols]
  Index rows = 0;
  Index cols = 0;  // head_dim rounded up to whole vectors

  static Index floats(Index rows, Index cols) { return rows * (cols + 2); }
  static AttentionState at(float* memory, Index rows, Index cols) {
    return {memory, memory + rows, memory + 2 * rows, rows, cols};
  }
  void clear();
};

// Memory that one tile needs, carved out of a worker's scratch.
struct AttentionMemory {
  AttentionMemory(Scratch& scratch, Index rows, Index head_dim, Index lanes);

  float* queries = nullptr;  // [rows, head_dim]
  Index* begin = nullptr;    // [rows]
  Index* end = nullptr;      // [rows]
  Index* chunk_begin = nullptr;
  Index* chunk_end = nullptr;
  float* scores = nullptr;  // [rows, kChunkTokens]
  float* keys = nullptr;    // packed
  float* values = nullptr;  // packed
  const void* key_rows[kChunkTokens];
  const void* value_rows[kChunkTokens];
  AttentionState total;
  AttentionState split;
};

// One chunk, its token rows and bounds being in `memory`.
void attend_chunk(const Kernels& kernels, const QueryTile& tile, Index tokens,
                  AttentionMemory& memory, AttentionState state);

// state = attention of the tile over its tokens within split `split`. token_rows(token, &key,
// &value) says where a token's key and value are; it is asked only for tokens some row sees.
template <typename TokenRows>
void attend_split(const Kernels& kernels, const QueryTile& tile, std::int64_t split,
                  AttentionMemory& memory, AttentionState state, const TokenRows& token_rows) {
  state.clear();
  const Index stop = std::min<Index>((split + 1) * kSplitTokens, tile.last);
  const Index start =
      std::max<Index>(split * kSplitTokens, tile.first / kChunkTokens * kChunkTokens);
  for (Index chunk = start; chunk < stop; chunk += kChunkTokens) {
    const Index tokens = std::min(kChunkTokens, stop - chunk);
    for (Index i = 0; i < tokens; ++i) {
      memory.key_rows[i] = memory.value_rows[i] = nullptr;
      if (chunk + i >= tile.first)
        token_rows(chunk + i, &memory.key_rows[i], &memory.value_rows[i]);
    }
    for (Index row = 0; row < tile.rows; ++row) {
      memory.chunk_begin[row] = tile.begin[row] - chunk;
      memory.chunk_end[row] = tile.end[row] - chunk;
    }
    attend_chunk(kernels, tile, tokens, memory, state);
  }
}

void merge(const Kernels& kernels, AttentionState into, const AttentionState& other);

// All splits in order, into memory.total.
template <typename TokenRows>
void attend(const Kernels& kernels, const QueryTile& tile, AttentionMemory& memory,
            const TokenRows& token_rows) {
  memory.total.clear();
  for (std::int64_t split = tile.first_split(); split < tile.end_split(); ++split) {
    attend_split(kernels, tile, split, memory, memory.split, token_rows);
    merge(kernels, memory.total, memory.split);
  }
}

}  // namespace saccade::cpu
