// Attention over the paged pool.
//
// Decode reads each sequence's keys and values once, which is its whole cost: the heads of a group
// share a tile, and long sequences are split over threads. Prefill reuses each chunk for a tile of
// tokens x group queries.
#include <algorithm>
#include <limits>

#include "ops/cpu/attention.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

// Rows [row, row + tokens) of one span, and one kv head.
struct Tile {
  const SequenceSpan* span = nullptr;
  std::int64_t kv_head = 0;
  std::int64_t row = 0;  // within the span
  std::int64_t tokens = 0;
  std::int64_t first_split = 0;
  std::int64_t end_split = 0;
  std::int64_t partial = 0;  // floats before its first split's state, when splits run apart
};

struct PagedAttention {
  const PagedAttentionArgs& args;
  const Kernels& kernels;
  std::int64_t group = args.heads / args.layer.kv_heads;

  Visible visible(const Tile& tile, std::int64_t token) const {
    return visible_to(tile.span->context + tile.row + token, tile.span->prefix, args.window);
  }

  // Fills memory with the tile's queries, token by token, the group's heads within.
  QueryTile load(const Tile& tile, AttentionMemory& memory) const {
    QueryTile query;
    query.rows = tile.tokens * group;
    query.head_dim = args.layer.head_dim;
    query.type = args.layer.dtype;
    query.softcap = args.softcap;
    query.queries = memory.queries;
    query.begin = memory.begin;
    query.end = memory.end;
    query.first = std::numeric_limits<Index>::max();
    Index out = 0;
    for (std::int64_t token = 0; token < tile.tokens; ++token) {
      const Visible seen = visible(tile, token);
      query.first = std::min<Index>(query.first, seen.begin);
      query.last = std::max<Index>(query.last, seen.end);
      const float* q = args.q.row<float>(tile.span->row_begin + tile.row + token) +
                       tile.kv_head * group * query.head_dim;
      for (std::int64_t head = 0; head < group; ++head, ++out) {
        memory.begin[out] = seen.begin;
        memory.end[out] = seen.end;
        kernels.mix_row(q + head * query.head_dim, args.scale, false,
                        memory.queries + out * query.head_dim, query.head_dim);
      }
    }
    return query;
  }

  auto token_rows(const Tile& tile) const {
    const KvLayer& layer = args.layer;
    const std::size_t row_bytes = static_cast<std::size_t>(layer.head_dim) * size_of(layer.dtype);
    const std::size_t values_at =
        static_cast<std::size_t>(layer.kv_heads * layer.block_size) * row_bytes;
    return [=, blocks = tile.span->blocks, kv_head = tile.kv_head](Index token, const void** key,
                                                                   const void** value) {
      const auto block =
          static_cast<std::size_t>(blocks[static_cast<std::size_t>(token / layer.block_size)]);
      const std::byte* row =
          layer.base + block * layer.block_stride +
          static_cast<std::size_t>(kv_head * layer.block_size + token % layer.block_size) *
              row_bytes;
      *key = row;
      *value = row + values_at;
    };
  }

  void store(const Tile& tile, const AttentionState& state) const {
    const std::int64_t head_dim = args.layer.head_dim;
    Index row = 0;
    for (std::int64_t token = 0; token < tile.tokens; ++token) {
      float* out = args.out.row<float>(tile.span->row_begin + tile.row + token) +
                   tile.kv_head * group * head_dim;
      for (std::int64_t head = 0; head < group; ++head, ++row)
        kernels.mix_row(state.out + row * state.cols, 1.0f / state.sum[row], false,
                        out + head * head_dim, head_dim);
    }
  }

  AttentionMemory memory_for(const Tile& tile, Scratch& scratch) const {
    return AttentionMemory(scratch, tile.tokens * group, args.layer.head_dim, kernels.lanes);
  }
};

}  // namespace

void CpuBackend::paged_attention(const PagedAttentionArgs& args) {
  check_shapes(args);
  const PagedAttention attention{args, kernels_};
  const std::int64_t tile_tokens = std::max<std::int64_t>(1, kTileQueries / attention.group);
  const std::int64_t cols =
      (args.layer.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes;

  std::vector<Tile> tiles;
  std::int64_t splits = 0;
  std::int64_t partial_floats = 0;
  for (const SequenceSpan& span : args.spans) {
    for (std::int64_t row = 0; row < span.row_count; row += tile_tokens) {
      Tile tile;
      tile.span = &span;
      tile.row = row;
      tile.tokens = std::min(tile_tokens, span.row_count - row);
      const std::int64_t first = attention.visible(tile, 0).begin;
      const std::int64_t end = attention.visible(tile, tile.tokens - 1).end;
      tile.first_split = first / kSplitTokens;
      tile.end_split =
          (std::max(end, attention.visible(tile, 0).end) + kSplitTokens - 1) / kSplitTokens;
      for (tile.kv_head = 0; tile.kv_head < args.layer.kv_heads; ++tile.kv_head) {
        tile.partial = partial_floats;
        const std::int64_t count = tile.end_split - tile.first_split;
        splits += count;
        partial_floats += count * AttentionState::floats(tile.tokens * attention.group, cols);
        tiles.push_back(tile);
      }
    }
  }

  // Tiles are enough work for all threads, or each is cut into its splits. Same sums either way.
  const auto tile_count = static_cast<std::int64_t>(tiles.size());
  constexpr std::int64_t kMostPartialFloats = 4 << 20;
  const bool cut = tile_count < 4 * pool_.size() && splits > tile_count && pool_.size() > 1 &&
                   partial_floats <= kMostPartialFloats;
  if (!cut) {
    pool_.parallel_each(tile_count, [&](std::int64_t item, int worker) {
      const Tile& tile = tiles[static_cast<std::size_t>(tile_count - 1 - item)];  // longest first
      AttentionMemory memory = attention.memory_for(tile, worker_scratch(worker));
      attend(kernels_, attention.load(tile, memory), memory, attention.token_rows(tile));
      attention.store(tile, memory.total);
    });
    return;
  }

  float* const partial = shared_.reserve<float>(partial_floats);
  const auto state_of = [&](const Tile& tile, std::int64_t split) {
    const std::int64_t rows = tile.tokens * attention.group;
    return AttentionState::at(
        partial + tile.partial + (split - tile.first_split) * AttentionState::floats(rows, cols),
        rows, cols);
  };
  pool_.parallel_each(splits, [&](std::int64_t item, int worker) {
    std::size_t index = 0;
    for (; item >= tiles[index].end_split - tiles[index].first_split; ++index)
      item -= tiles[index].end_split - tiles[index].first_split;
    const Tile& tile = tiles[index];
    const std::int64_t split = tile.first_split + item;
    AttentionMemory memory = attention.memory_for(tile, worker_scratch(worker));
    attend_split(kernels_, attention.load(tile, memory), split, memory, state_of(tile, split),
                 attention.token_rows(tile));
  });
  pool_.parallel_each(tile_count, [&](std::int64_t item, int worker) {
    const Tile& tile = tiles[static_cast<std::size_t>(item)];
    AttentionMemory memory = attention.memory_for(tile, worker_scratch(worker));
    memory.total.clear();
    for (std::int64_t split = tile.first_split; split < tile.end_split; ++split)
      merge(kernels_, memory.total, state_of(tile, split));
    attention.store(tile, memory.total);
  });
}

}  // namespace saccade::cpu
