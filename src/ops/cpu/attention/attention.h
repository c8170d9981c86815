// Attention of a tile of queries over a range of tokens, shared by the paged and the segment op.
//
// A tile is up to some 512 query rows (tokens x the heads that share a kv head), so that one read
// of keys and values serves them all. Tokens are taken in chunks (AttentionKernels::chunk_tokens),
// and chunks in splits of kSplitTokens, both at fixed positions from the sequence's first token. A
// split starts from nothing; splits are joined in order; packed tokens have no splits. So what a
// row computes depends on which tokens it sees, and not on the rows beside it, on how its sequence
// was cut into steps, or on whether splits ran on one thread or several.
#pragma once

#include <vector>

#include "ops/cpu/cpu_device.h"

namespace saccade::cpu {

constexpr Index kSplitTokens = 512;
// Queries of a tile: enough to make packing a chunk cheap beside its use, few enough to keep all
// threads busy.
constexpr Index kFewestTileQueries = 64;
constexpr Index kMaxTileQueries = 512;
inline Index tile_queries(std::int64_t queries, int threads) {
  return std::clamp<Index>(queries / (8 * threads) / 64 * 64, kFewestTileQueries, kMaxTileQueries);
}

// Softmax-weighted sum of values so far, for each row of a tile.
struct AttentionState {
  float* max = nullptr;  // [rows]
  float* sum = nullptr;  // [rows]
  float* out = nullptr;  // [rows rounded up to row_unit, cols]
  Index rows = 0;
  Index cols = 0;

  void clear();
};

// What the queries of a tile are, and where things lie in memory: pure arithmetic.
struct TileShape {
  TileShape(const AttentionKernels& kernels, Index rows, Index head_dim);
  Index state_floats() const;
  AttentionState state_at(float* memory) const;

  Index rows;
  Index padded_rows;
  Index head_dim;
  Index padded_depth;
  Index cols;
};

// Keys and values of a run of tokens that begins at a multiple of chunk_tokens, packed once for all
// tiles of queries: chunk after chunk.
struct PackedTokens {
  PackedTokens(const AttentionKernels& attention, Index head_dim, std::byte* memory);
  static Index bytes(const AttentionKernels& attention, Index head_dim, Index tokens);
  // token_rows as in AttentionTile, for tokens [chunk * chunk_tokens, end of the chunk or `last`).
  template <typename TokenRows>
  void pack(const AttentionKernels& attention, DType type, Index chunk, Index last,
            const TokenRows& token_rows) const;

  Index head_dim;
  Index cols;
  Index key_bytes;  // of a chunk
  Index value_bytes;
  std::byte* memory;

  std::byte* keys(Index chunk) const { return memory + chunk * (key_bytes + value_bytes); }
  std::byte* values(Index chunk) const { return keys(chunk) + key_bytes; }
};

// One tile at work, in a worker's scratch.
class AttentionTile {
 public:
  // `coded`: with room for decoded().
  AttentionTile(const Kernels& kernels, const AttentionKernels& attention, Index rows,
                Index head_dim, Scratch& scratch, bool coded = false);

  // Query `row`, which sees tokens [begin, end) of its sequence, begin < end.
  void set_query(Index row, const float* q, float scale, Index begin, Index end);

  // All splits in order. token_rows(token, &key, &value) says where a token's key and value are; it
  // is asked only for tokens in the span of what the queries see.
  template <typename TokenRows>
  void attend(DType type, float softcap, const TokenRows& token_rows) {
    total_.clear();
    for (Index split = first_ / kSplitTokens; split * kSplitTokens < last_; ++split) {
      attend_split(type, softcap, split, split_, token_rows);
      merge(split_);
    }
  }
  // The same of tokens that are packed already, chunk after chunk: nobody else has a part of them.
  void attend(DType type, float softcap, const PackedTokens& tokens);
  // One split alone, into `state`.
  template <typename TokenRows>
  void attend_split(DType type, float softcap, Index split, AttentionState state,
                    const TokenRows& token_rows) {
    state.clear();
    const Index unit = attention_.chunk_tokens;
    const Index stop = std::min((split + 1) * kSplitTokens, last_);
    for (Index chunk = std::max(split * kSplitTokens, first_ / unit * unit); chunk < stop;
         chunk += unit) {
      const Index tokens = std::min(unit, stop - chunk);
      for (Index i = 0; i < tokens || i % kTokenUnit != 0; ++i) {
        key_rows_[i] = value_rows_[i] = zeros_;
        if (i < tokens && chunk + i >= first_)
          token_rows(chunk + i, &key_rows_[i], &value_rows_[i]);
      }
      attend_chunk(type, softcap, chunk, tokens, state);
    }
  }
  // Where token_rows() puts a token whose key and value are codes: as bf16 values, which each
  // of them is. Good until the chunk has passed.
  struct Decoded {
    Bf16* key = nullptr;  // [head_dim]
    Bf16* value = nullptr;
    float* key_scale = nullptr;
    float* value_scale = nullptr;
  };
  Decoded decoded(Index token) const {
    const Index place = token % attention_.chunk_tokens;
    Bf16* const key = decoded_rows_ + 2 * place * shape_.head_dim;
    return {key, key + shape_.head_dim, key_scales_ + place, value_scales_ + place};
  }

  // total := total joined with a later split's state. Begin with clear_total().
  void merge(const AttentionState& split);
  void clear_total() { total_.clear(); }

  // Row `row` of the result, [head_dim].
  void store(Index row, float* out) const;

 private:
  void attend_chunk(DType type, float softcap, Index chunk, Index tokens, AttentionState state);

  const Kernels& kernels_;
  const AttentionKernels& attention_;
  TileShape shape_;
  Index first_ = 0;  // the queries see tokens within [first, last)
  Index last_ = 0;
  ChunkArgs args_;  // what stays the same from chunk to chunk
  void* queries_ = nullptr;
  Index* begin_ = nullptr;  // [rows]
  Index* end_ = nullptr;    // [rows]
  Index* chunk_begin_ = nullptr;
  Index* chunk_end_ = nullptr;
  const void** key_rows_ = nullptr;
  const void** value_rows_ = nullptr;
  float* zeros_ = nullptr;         // [head_dim]
  Bf16* decoded_rows_ = nullptr;   // [chunk_tokens][key, value][head_dim], or null
  float* key_scales_ = nullptr;    // [chunk_tokens], or null
  float* value_scales_ = nullptr;  // the same
  AttentionState total_;
  AttentionState split_;
};

template <typename TokenRows>
void PackedTokens::pack(const AttentionKernels& attention, DType type, Index chunk, Index last,
                        const TokenRows& token_rows) const {
  constexpr Index kMaxTokens = 256;
  const std::vector<float> zeros(static_cast<std::size_t>(head_dim));
  const void* key_rows[kMaxTokens];
  const void* value_rows[kMaxTokens];
  const Index unit = attention.chunk_tokens;
  CHECK(unit <= kMaxTokens, "chunks of {} tokens", unit);
  ChunkArgs args;
  args.tokens = std::min(unit, last - chunk * unit);
  for (Index i = 0; i < args.tokens || i % kTokenUnit != 0; ++i) {
    key_rows[i] = value_rows[i] = zeros.data();
    if (i < args.tokens) token_rows(chunk * unit + i, &key_rows[i], &value_rows[i]);
  }
  args.head_dim = head_dim;
  args.cols = cols;
  args.type = type;
  args.key_rows = key_rows;
  args.value_rows = value_rows;
  args.keys = keys(chunk);
  args.values = values(chunk);
  attention.pack_chunk(args);
}

}  // namespace saccade::cpu
