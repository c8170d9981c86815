// Attention over the paged pool.
//
// Decode reads each sequence's keys and values once, which is its whole cost: the heads of a group
// share a tile, and long sequences are split over threads. Prefill reuses each chunk for a tile of
// tokens x group queries. Keys and values in bytes (ops/formats/kv_rows.h) are dequantised to bf16
// a chunk at a time, which loses nothing of a code; its scale goes to the score, or the weight.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ops/cpu/attention/attention.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

// Rows [row, row + tokens) of one span, and one kv head.
struct Tile {
  const SequenceSpan* span = nullptr;
  std::int64_t kv_head = 0;
  std::int64_t row = 0;  // within the span
  std::int64_t tokens = 0;
  Index first_split = 0;
  Index end_split = 0;
  Index partial = 0;  // floats before its first split's state, when splits run apart
};

// The tiles of a step for one set of attention kernels.
struct Tiles {
  std::vector<Tile> list;
  Index splits = 0;          // of all tiles
  Index partial_floats = 0;  // of all splits' states
};

Tiles cut_tiles(const AttentionPlan& plan, const AttentionKernels& attention, int threads) {
  const AttentionGeometry& geometry = plan.geometry();
  const std::int64_t group = geometry.heads / geometry.kv_heads;
  const Index queries = tile_queries(plan.rows() * geometry.heads, threads);
  const std::int64_t most = std::max<std::int64_t>(1, queries / group);
  Tiles tiles;
  for (const SequenceSpan& span : plan.spans()) {
    for (std::int64_t row = 0; row < span.row_count; row += most) {
      Tile tile;
      tile.span = &span;
      tile.row = row;
      tile.tokens = std::min(most, span.row_count - row);
      const auto visible = [&](std::int64_t token) {
        return visible_to(span, span.context + row + token, geometry.window);
      };
      const Index end = std::max(visible(0).end, visible(tile.tokens - 1).end);
      tile.first_split = visible(0).begin / kSplitTokens;
      tile.end_split = (end + kSplitTokens - 1) / kSplitTokens;
      const Index splits = tile.end_split - tile.first_split;
      const TileShape shape(attention, tile.tokens * group, geometry.head_dim);
      for (tile.kv_head = 0; tile.kv_head < geometry.kv_heads; ++tile.kv_head) {
        tile.partial = tiles.partial_floats;
        tiles.splits += splits;
        tiles.partial_floats += splits * shape.state_floats();
        tiles.list.push_back(tile);
      }
    }
  }
  return tiles;
}

// Cut once for all layers, for each of the two sets of kernels that is used.
class CpuAttentionPlan final : public AttentionPlan {
 public:
  using AttentionPlan::AttentionPlan;
  const Tiles& tiles(bool tiled, const AttentionKernels& attention, int threads) const {
    std::optional<Tiles>& tiles = tiles_[tiled ? 1 : 0];
    if (!tiles) tiles = cut_tiles(*this, attention, threads);
    return *tiles;
  }

 private:
  mutable std::array<std::optional<Tiles>, 2> tiles_;  // one thread calls
};

struct PagedAttention {
  const PagedAttentionArgs& args;
  const Kernels& kernels;
  const AttentionKernels& attention;
  AttentionGeometry geometry = args.plan->geometry();
  std::int64_t group = geometry.heads / geometry.kv_heads;

  Visible visible(const Tile& tile, std::int64_t token) const {
    return visible_to(*tile.span, tile.span->context + tile.row + token, geometry.window);
  }

  TileShape shape(const Tile& tile) const {
    return TileShape(attention, tile.tokens * group, geometry.head_dim);
  }

  // The tile with its queries: token by token, the group's heads within.
  AttentionTile load(const Tile& tile, Scratch& scratch) const {
    const std::int64_t head_dim = geometry.head_dim;
    AttentionTile work(kernels, attention, tile.tokens * group, head_dim, scratch,
                       args.layer.coded());
    Index row = 0;
    for (std::int64_t token = 0; token < tile.tokens; ++token) {
      const Visible seen = visible(tile, token);
      const float* q = args.q.row<float>(tile.span->row_begin + tile.row + token) +
                       tile.kv_head * group * head_dim;
      for (std::int64_t head = 0; head < group; ++head)
        work.set_query(row++, q + head * head_dim, args.scale, seen.begin, seen.end);
    }
    return work;
  }

  DType row_type() const { return args.layer.coded() ? DType::kBf16 : args.layer.dtype(); }

  // Calls body(token_rows) as AttentionTile takes it: rows of floats are where the pool has them,
  // those of bytes are decoded into the tile's scratch as they are asked for.
  template <typename Body>
  void with_rows(const Tile& tile, const AttentionTile& work, const Body& body) const {
    const KvLayer& layer = args.layer;
    const KvHeadRows rows(layer, tile.kv_head);
    const auto block_of = [&layer, blocks = tile.span->blocks](Index token) {
      const auto block =
          static_cast<std::size_t>(blocks[static_cast<std::size_t>(token / layer.block_size)]);
      return layer.blocks.data() + block * layer.blocks.row_bytes();
    };
    if (!layer.coded()) {
      body([&](Index token, const void** key, const void** value) {
        const std::byte* const block = block_of(token);
        *key = block + rows.key(token % layer.block_size);
        *value = block + rows.value(token % layer.block_size);
      });
      return;
    }
    body([&](Index token, const void** key, const void** value) {
      const std::byte* const block = block_of(token);
      const std::int64_t slot = token % layer.block_size;
      const AttentionTile::Decoded to = work.decoded(token);
      const auto decode = [&](std::int64_t at, Bf16* row) {
        kernels.convert_row(block + at, layer.dtype(), row, DType::kBf16, 1.0f, layer.head_dim);
      };
      decode(rows.key(slot), to.key);
      decode(rows.value(slot), to.value);
      std::memcpy(to.key_scale, block + rows.key_scale(slot), sizeof(float));
      std::memcpy(to.value_scale, block + rows.value_scale(slot), sizeof(float));
      *key = to.key;
      *value = to.value;
    });
  }

  void store(const Tile& tile, const AttentionTile& work) const {
    Index row = 0;
    for (std::int64_t token = 0; token < tile.tokens; ++token) {
      float* out = args.out.row<float>(tile.span->row_begin + tile.row + token) +
                   tile.kv_head * group * geometry.head_dim;
      for (std::int64_t head = 0; head < group; ++head)
        work.store(row++, out + head * geometry.head_dim);
    }
  }
};

}  // namespace

const AttentionPlan& CpuStream::plan_attention(std::span<const SequenceSpan> spans,
                                               const AttentionGeometry& geometry) {
  return keep(std::make_unique<CpuAttentionPlan>(spans, geometry));
}

void CpuStream::paged_attention(const PagedAttentionArgs& args) {
  check_shapes(args);
  const bool bf16_rows = args.layer.coded() || args.layer.dtype() == DType::kBf16;
  const bool tiled = args.compute == DType::kBf16 && bf16_rows;
  const PagedAttention paged{args, kernels_, attention_kernels(tiled)};
  const auto& [tiles, splits, partial_floats] =
      static_cast<const CpuAttentionPlan&>(*args.plan).tiles(tiled, paged.attention, pool_.size());
  const auto tile_count = static_cast<std::int64_t>(tiles.size());
  if (tile_count == 0) return;

  // Tiles are enough work for all threads, or each is cut into its splits. Same sums either way.
  constexpr Index kMaxPartialFloats = 4 << 20;
  const bool cut = pool_.size() > 1 && tile_count < 4 * pool_.size() && splits > tile_count &&
                   partial_floats <= kMaxPartialFloats;
  if (!cut) {
    pool_.parallel_each(tile_count, [&](std::int64_t item, int worker) {
      const Tile& tile = tiles[static_cast<std::size_t>(tile_count - 1 - item)];  // longest first
      AttentionTile work = paged.load(tile, worker_scratch(worker));
      paged.with_rows(tile, work,
                      [&](const auto& rows) { work.attend(paged.row_type(), args.softcap, rows); });
      paged.store(tile, work);
    });
    return;
  }

  float* const partial = shared_scratch().reserve<float>(partial_floats);
  const auto state_of = [&](const Tile& tile, Index split) {
    const TileShape shape = paged.shape(tile);
    return shape.state_at(partial + tile.partial +
                          (split - tile.first_split) * shape.state_floats());
  };
  pool_.parallel_each(splits, [&](std::int64_t item, int worker) {
    std::size_t index = 0;
    for (; item >= tiles[index].end_split - tiles[index].first_split; ++index)
      item -= tiles[index].end_split - tiles[index].first_split;
    const Tile& tile = tiles[index];
    const Index split = tile.first_split + item;
    AttentionTile work = paged.load(tile, worker_scratch(worker));
    paged.with_rows(tile, work, [&](const auto& rows) {
      work.attend_split(paged.row_type(), args.softcap, split, state_of(tile, split), rows);
    });
  });
  pool_.parallel_each(tile_count, [&](std::int64_t item, int worker) {
    const Tile& tile = tiles[static_cast<std::size_t>(item)];
    AttentionTile work(kernels_, paged.attention, tile.tokens * paged.group,
                       paged.geometry.head_dim, worker_scratch(worker));
    work.clear_total();
    for (Index split = tile.first_split; split < tile.end_split; ++split)
      work.merge(state_of(tile, split));
    paged.store(tile, work);
  });
}

}  // namespace saccade::cpu
