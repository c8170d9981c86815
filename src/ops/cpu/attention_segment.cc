// Attention within segments of plain rows: vision towers and sentence encoders.
//
// For a 1024 x 1024 image, 5476 patches attend to each other: 153 Gflop a layer, by far the largest
// part of encoding it. A tile of 512 queries reads 3.5 MB of keys and values for 900 Mflop.
#include <algorithm>

#include "ops/cpu/attention.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

// Keys and values are packed once for all queries of their segment, as many heads at a time as this
// holds (one at the least).
constexpr Index kPackedBytes = 8 << 20;

// Queries [row, row + rows) x one head, within a segment.
struct Tile {
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::size_t segment = 0;
};

// A chunk of keys and values to pack.
struct Chunk {
  std::int64_t kv_head = 0;
  std::size_t segment = 0;
  Index index = 0;
};

struct SegmentAttention {
  const SegmentAttentionArgs& args;
  const AttentionKernels& attention;
  SegmentGeometry geometry = args.plan->geometry();
  std::span<const std::int32_t> begins = args.plan->begins();
  std::int64_t group = geometry.heads / geometry.kv_heads;
  std::vector<Index> bytes_before = {};  // of each segment, in the memory of a head

  std::size_t segments() const { return begins.size() - 1; }
  std::int64_t begin(std::size_t segment) const { return begins[segment]; }
  std::int64_t length(std::size_t segment) const { return begins[segment + 1] - begins[segment]; }

  // Bytes of a head's keys and values.
  Index head_bytes() {
    bytes_before.assign(1, 0);
    for (std::size_t segment = 0; segment < segments(); ++segment)
      bytes_before.push_back(bytes_before.back() +
                             PackedTokens::bytes(attention, geometry.head_dim, length(segment)));
    return bytes_before.back();
  }
  PackedTokens packed(std::byte* head, std::size_t segment) const {
    return PackedTokens(attention, geometry.head_dim, head + bytes_before[segment]);
  }

  void pack(const Chunk& chunk, std::byte* head) const {
    const std::int64_t col = chunk.kv_head * geometry.head_dim;
    const std::int64_t first = begin(chunk.segment);
    packed(head, chunk.segment)
        .pack(attention, DType::kF32, chunk.index, length(chunk.segment),
              [&](Index token, const void** key, const void** value) {
                *key = args.k.row<float>(first + token) + col;
                *value = args.v.row<float>(first + token) + col;
              });
  }

  void attend(const Tile& tile, const Kernels& kernels, std::byte* head, Scratch& scratch) const {
    AttentionTile work(kernels, attention, tile.rows, geometry.head_dim, scratch);
    const std::int64_t col = tile.head * geometry.head_dim;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      work.set_query(row, args.q.row<float>(tile.row + row) + col, args.scale, 0,
                     length(tile.segment));
    work.attend(DType::kF32, 0, packed(head, tile.segment));
    for (std::int64_t row = 0; row < tile.rows; ++row)
      work.store(row, args.out.row<float>(tile.row + row) + col);
  }
};

}  // namespace

void CpuStream::segment_attention(const SegmentAttentionArgs& args) {
  check_shapes(args);
  SegmentAttention segment{args, attention_kernels(args.compute == DType::kBf16)};
  const Index queries = tile_queries(args.q.rows() * segment.geometry.heads, pool_.size());
  const Index head_bytes = segment.head_bytes();
  if (head_bytes == 0) return;
  const Index heads_at_once =
      std::clamp<Index>(kPackedBytes / head_bytes, 1, segment.geometry.kv_heads);
  std::byte* const memory = shared_scratch().reserve<std::byte>(heads_at_once * head_bytes);
  std::vector<Chunk> chunks;
  std::vector<Tile> tiles;
  for (Index top = 0; top < segment.geometry.kv_heads; top += heads_at_once) {
    const Index end = std::min<Index>(top + heads_at_once, segment.geometry.kv_heads);
    const auto memory_of = [&](std::int64_t kv_head) {
      return memory + (kv_head - top) * head_bytes;
    };
    chunks.clear();
    tiles.clear();
    for (std::size_t at = 0; at < segment.segments(); ++at) {
      const std::int64_t length = segment.length(at);
      for (std::int64_t kv_head = top; kv_head < end; ++kv_head)
        for (Index i = 0; i * segment.attention.chunk_tokens < length; ++i)
          chunks.push_back({kv_head, at, i});
      for (std::int64_t head = top * segment.group; head < end * segment.group; ++head)
        for (std::int64_t row = 0; row < length; row += queries)
          tiles.push_back(
              {head, segment.begin(at) + row, std::min<std::int64_t>(queries, length - row), at});
    }
    pool_.parallel_each(std::ssize(chunks), [&](std::int64_t item, int) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(item)];
      segment.pack(chunk, memory_of(chunk.kv_head));
    });
    pool_.parallel_each(std::ssize(tiles), [&](std::int64_t item, int worker) {
      const Tile& tile = tiles[static_cast<std::size_t>(item)];
      segment.attend(tile, kernels_, memory_of(tile.head / segment.group), worker_scratch(worker));
    });
  }
}

}  // namespace saccade::cpu
