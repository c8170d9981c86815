// Attention within segments of plain rows: vision towers and sentence encoders.
//
// For a 1024 x 1024 image, 5476 patches attend to each other: 153 Gflop a layer, by far the largest
// part of encoding it. A tile of 192 queries reads 3.5 MB of keys and values for 336 Mflop.
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

void CpuBackend::segment_attention(const SegmentAttentionArgs& args) {
  check_shapes(args);
  const std::int64_t group = args.heads / args.kv_heads;
  std::vector<Tile> tiles;
  for (std::size_t segment = 0; segment + 1 < args.begins.size(); ++segment) {
    const std::int64_t begin = args.begins[segment];
    const std::int64_t end = args.begins[segment + 1];
    for (std::int64_t head = 0; head < args.heads; ++head)
      for (std::int64_t row = begin; row < end; row += kTileQueries)
        tiles.push_back({head, row, std::min(kTileQueries, end - row), begin, end});
  }
  pool_.parallel_each(static_cast<std::int64_t>(tiles.size()), [&](std::int64_t item, int worker) {
    const Tile& tile = tiles[static_cast<std::size_t>(item)];
    AttentionMemory memory(worker_scratch(worker), tile.rows, args.head_dim, kernels_.lanes);
    QueryTile query;
    query.rows = tile.rows;
    query.head_dim = args.head_dim;
    query.queries = memory.queries;
    query.begin = memory.begin;
    query.end = memory.end;
    query.last = tile.end - tile.begin;
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      memory.begin[row] = 0;
      memory.end[row] = query.last;
      kernels_.mix_row(args.q.row<float>(tile.row + row) + tile.head * args.head_dim, args.scale,
                       false, memory.queries + row * args.head_dim, args.head_dim);
    }
    const std::int64_t kv_col = tile.head / group * args.head_dim;
    attend(kernels_, query, memory, [&](Index token, const void** key, const void** value) {
      *key = args.k.row<float>(tile.begin + token) + kv_col;
      *value = args.v.row<float>(tile.begin + token) + kv_col;
    });
    for (std::int64_t row = 0; row < tile.rows; ++row)
      kernels_.mix_row(memory.total.out + row * memory.total.cols, 1.0f / memory.total.sum[row],
                       false, args.out.row<float>(tile.row + row) + tile.head * args.head_dim,
                       args.head_dim);
  });
}

}  // namespace saccade::cpu
