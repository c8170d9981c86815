// Attention within segments of plain rows: vision towers and sentence encoders.
//
// For a 1024 x 1024 image, 5476 patches attend to each other: 153 Gflop a layer, by far the largest
// part of encoding it. A tile of 512 queries reads 3.5 MB of keys and values for 900 Mflop.
#include <algorithm>

#include "ops/cpu/attention.h"
#include "ops/shapes.h"

namespace saccade::cpu {
namespace {

// Queries [row, row + rows) x one head, within segment [begin, end).
struct Tile {
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

}  // namespace

void CpuStream::segment_attention(const SegmentAttentionArgs& args) {
  check_shapes(args);
  const auto [heads, kv_heads, dims] = args.plan->geometry();
  const std::int64_t head_dim = dims;
  const std::span<const std::int32_t> begins = args.plan->begins();
  const Index queries = tile_queries(args.q.rows() * heads, pool_.size());
  std::vector<Tile> tiles;
  for (std::size_t segment = 0; segment + 1 < begins.size(); ++segment) {
    const std::int64_t begin = begins[segment];
    const std::int64_t end = begins[segment + 1];
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t row = begin; row < end; row += queries)
        tiles.push_back({head, row, std::min<std::int64_t>(queries, end - row), begin, end});
  }
  const std::int64_t group = heads / kv_heads;
  const AttentionKernels& attention = attention_kernels(args.compute == DType::kBf16);
  pool_.parallel_each(static_cast<std::int64_t>(tiles.size()), [&](std::int64_t item, int worker) {
    const Tile& tile = tiles[static_cast<std::size_t>(item)];
    AttentionTile work(kernels_, attention, tile.rows, head_dim, worker_scratch(worker));
    const std::int64_t col = tile.head * head_dim;
    for (std::int64_t row = 0; row < tile.rows; ++row)
      work.set_query(row, args.q.row<float>(tile.row + row) + col, args.scale, 0,
                     tile.end - tile.begin);
    const std::int64_t kv_col = tile.head / group * head_dim;
    work.attend(DType::kF32, 0, [&](Index token, const void** key, const void** value) {
      *key = args.k.row<float>(tile.begin + token) + kv_col;
      *value = args.v.row<float>(tile.begin + token) + kv_col;
    });
    for (std::int64_t row = 0; row < tile.rows; ++row)
      work.store(row, args.out.row<float>(tile.row + row) + col);
  });
}

}  // namespace saccade::cpu
