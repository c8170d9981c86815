// Attention within segments of plain rows: vision towers and sentence encoders.
//
// For a 1024 x 1024 image, 5476 patches attend to each other: 153 Gflop a layer, by far the largest
// part of encoding it. A tile of 512 queries reads 3.5 MB of keys and values for 900 Mflop.
#include <algorithm>

#include "ops/cpu/attention/attention.h"
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
  std::vector<Index> bytes_before = {};  // of each segment that is packed, in a head's memory

  std::size_t segments() const { return begins.size() - 1; }
  std::int64_t begin(std::size_t segment) const { return begins[segment]; }
  std::int64_t length(std::size_t segment) const { return begins[segment + 1] - begins[segment]; }

  // Bytes of a head's keys and values of the segments [first, end).
  Index head_bytes(std::size_t first, std::size_t end) {
    bytes_before.assign(segments() + 1, 0);
    Index bytes = 0;
    for (std::size_t segment = first; segment < end; ++segment) {
      bytes_before[segment] = bytes;
      bytes += PackedTokens::bytes(attention, geometry.head_dim, length(segment));
    }
    return bytes;
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

// Queries of a tile, of so many: no more than keep all threads busy, where there are few.
Index part_queries(std::int64_t queries, int threads) {
  constexpr Index kLeast = 16;
  const Index usual = tile_queries(queries, threads);
  const Index each = (queries / threads + kLeast - 1) / kLeast * kLeast;
  return std::clamp(each, kLeast, usual);
}

}  // namespace

void CpuStream::segment_attention(const SegmentAttentionArgs& args) {
  attend_part(args, {.head_end = args.plan->geometry().heads, .row_end = args.plan->rows()});
}

// Segment by segment in the memory of each kv head, as many heads at a time as kPackedBytes holds.
// Where that is all heads of the part, what is packed stays for the next.
void CpuStream::attend_part(const SegmentAttentionArgs& args, const SegmentPart& part) {
  check_shapes(args);
  SegmentAttention segment{args, attention_kernels(args.compute == DType::kBf16)};
  const SegmentGeometry& geometry = segment.geometry;
  CHECK(part.head_begin % segment.group == 0 && part.head_end % segment.group == 0 &&
            part.head_end <= geometry.heads && part.row_end <= args.plan->rows(),
        "heads [{}, {}) of {}, rows [{}, {}) of {}", part.head_begin, part.head_end, geometry.heads,
        part.row_begin, part.row_end, args.plan->rows());
  const std::int64_t rows = part.row_end - part.row_begin;
  const std::int64_t heads = part.head_end - part.head_begin;
  if (rows <= 0 || heads <= 0) return;
  // Segments that have some of the rows.
  const auto begins = segment.begins;
  const auto first = static_cast<std::size_t>(std::ranges::upper_bound(begins, part.row_begin) -
                                              begins.begin() - 1);
  const auto end =
      static_cast<std::size_t>(std::ranges::lower_bound(begins, part.row_end) - begins.begin());
  const Index head_bytes = segment.head_bytes(first, end);
  const Index kv_begin = part.head_begin / segment.group;
  const Index kv_end = part.head_end / segment.group;
  const Index heads_at_once = std::clamp<Index>(kPackedBytes / head_bytes, 1, kv_end - kv_begin);
  const PackedSegments wanted = {args.plan, kv_begin, kv_end, first, end};
  PackedSegments& held = device_.packed_segments_;
  const bool packed = part.same_keys && held == wanted;
  std::byte* const memory = device_.packed_.reserve<std::byte>(heads_at_once * head_bytes);
  held = heads_at_once == kv_end - kv_begin ? wanted : PackedSegments();
  const Index queries = part_queries(rows * heads, pool_.size());
  std::vector<Chunk> chunks;
  std::vector<Tile> tiles;
  for (Index top = kv_begin; top < kv_end; top += heads_at_once) {
    const Index bottom = std::min<Index>(top + heads_at_once, kv_end);
    const auto memory_of = [&](std::int64_t kv_head) {
      return memory + (kv_head - top) * head_bytes;
    };
    chunks.clear();
    tiles.clear();
    for (std::size_t at = first; at < end; ++at) {
      for (std::int64_t kv_head = top; kv_head < bottom && !packed; ++kv_head)
        for (Index i = 0; i * segment.attention.chunk_tokens < segment.length(at); ++i)
          chunks.push_back({kv_head, at, i});
      const std::int64_t last = std::min(segment.begin(at) + segment.length(at), part.row_end);
      for (std::int64_t head = top * segment.group; head < bottom * segment.group; ++head)
        for (std::int64_t row = std::max(segment.begin(at), part.row_begin); row < last;
             row += queries)
          tiles.push_back({head, row, std::min<std::int64_t>(queries, last - row), at});
    }
    pool_.parallel_each(std::ssize(chunks), [&](std::int64_t item, int) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(item)];
      segment.pack(chunk, memory_of(chunk.kv_head));
    });
    if (part.keys_alone) continue;
    pool_.parallel_each(std::ssize(tiles), [&](std::int64_t item, int worker) {
      const Tile& tile = tiles[static_cast<std::size_t>(item)];
      segment.attend(tile, kernels_, memory_of(tile.head / segment.group), worker_scratch(worker));
    });
  }
}

}  // namespace saccade::cpu
