#include "ops/cuda/attention/attention_splits.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace saccade::cuda {
namespace {

// What a tile's rows see.
struct TileRange {
  std::int64_t rows = 0;  // with the heads of a group
  std::int64_t first_split = 0;
  std::int64_t splits = 1;
  // That an interval of this length has at most, wherever it begins: unlike `splits` it stays as a
  // window moves on.
  std::int64_t max_splits = 1;
};

TileRange range_of(const AttentionCall& call, const AttentionTile& tile) {
  const AttentionSequence& sequence = call.sequences[static_cast<std::size_t>(tile.sequence)];
  const std::int64_t group = call.heads / call.kv_heads;
  TileRange range;
  range.rows = std::min<std::int64_t>(kAttentionTileRows, sequence.row_count * group - tile.first);
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (std::int64_t row = tile.first / group; row <= (tile.first + range.rows - 1) / group; ++row) {
    const auto at = static_cast<std::size_t>(2 * (sequence.row_begin + row));
    begin = std::min<std::int64_t>(begin, call.seen[at]);
    end = std::max<std::int64_t>(end, call.seen[at + 1]);
  }
  if (end <= begin) return range;
  const std::int64_t tokens = call.split_tokens;
  range.first_split = begin / tokens;
  range.splits = (end - 1) / tokens + 1 - range.first_split;
  range.max_splits = std::min((end - 1) / tokens + 1, (end - begin + tokens - 2) / tokens + 1);
  return range;
}

std::int64_t row_bytes(const AttentionCall& call) {
  return call.kv_heads * (attention_width(call.head_dim) + kPartialStateFloats) *
         static_cast<std::int64_t>(sizeof(float));
}

std::size_t whole_bytes(std::int64_t bytes) {
  return bytes == 0 ? 0 : std::bit_ceil(static_cast<std::size_t>(bytes));
}

std::int64_t whole_parts(std::int64_t parts, std::int64_t least) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(parts, least))));
}

// Whether a block that goes over several splits of this tile keeps in scratch what they make.
bool wants_place(const AttentionCall& call, std::size_t tile) {
  return attention_width(call.head_dim) > kMaxJoinedWidth &&
         static_cast<std::int64_t>(tile) >= call.few_tiles;
}

}  // namespace

AttentionSplitPlan share_splits(const AttentionCall& call, std::int64_t max_walked) {
  AttentionSplitPlan plan;
  std::int64_t rows = 0;       // in scratch
  std::int64_t max_parts = 0;  // of calls like this one
  for (std::size_t i = 0; i < call.tiles.size(); ++i) {
    if (static_cast<std::int64_t>(i) == call.few_tiles)
      plan.few_parts = static_cast<std::int64_t>(plan.parts.size());
    const TileRange range = range_of(call, call.tiles[i]);
    const bool parted = range.max_splits > max_walked;
    const bool shared = parted && range.splits > 1;
    plan.merges.push_back({static_cast<std::int32_t>(rows),
                           static_cast<std::int32_t>(shared ? range.splits : 1),
                           static_cast<std::int32_t>(range.rows)});
    max_parts += parted ? range.max_splits : 1;
    if (!shared) {
      const bool placed = range.splits > 1 && wants_place(call, i);
      plan.parts.push_back(
          {static_cast<std::int32_t>(i), -1, placed ? static_cast<std::int32_t>(rows) : -1});
      if (placed) rows += range.rows;
      continue;
    }
    for (std::int64_t split = 0; split < range.splits; ++split)
      plan.parts.push_back({static_cast<std::int32_t>(i),
                            static_cast<std::int32_t>(range.first_split + split),
                            static_cast<std::int32_t>(rows + split * range.rows)});
    rows += range.splits * range.rows;
    if (static_cast<std::int64_t>(i) < call.few_tiles && joined_by_last(plan.merges.back()))
      plan.ended = call.few_tiles * call.kv_heads;
    else
      plan.merge_rows = std::max(plan.merge_rows, range.rows);
  }
  plan.parts.resize(static_cast<std::size_t>(whole_parts(max_parts, call.least_parts)),
                    {-1, -1, -1});
  if (call.few_tiles == static_cast<std::int64_t>(call.tiles.size()))
    plan.few_parts = static_cast<std::int64_t>(plan.parts.size());
  plan.partial_bytes = whole_bytes(rows * row_bytes(call));
  return plan;
}

AttentionSplitPlan walk_splits(const AttentionCall& call, std::int64_t max_tiles) {
  AttentionSplitPlan plan;
  const std::int64_t many = static_cast<std::int64_t>(call.tiles.size()) - call.few_tiles;
  if (many == 0 || !wants_place(call, static_cast<std::size_t>(call.few_tiles))) return plan;
  const std::int64_t tile_bytes = kAttentionTileRows * row_bytes(call);
  plan.band = std::min({many, max_tiles, std::max<std::int64_t>(1, kMaxPartialBytes / tile_bytes)});
  plan.partial_bytes = whole_bytes(plan.band * tile_bytes);
  return plan;
}

AttentionSplitPlan plan_splits(const AttentionCall& call) {
  // Other heads are the f32 kernel's, which needs no scratch.
  if (call.head_dim % 8 != 0 || call.head_dim > 256) return {};
  std::vector<TileRange> ranges;
  std::int64_t splits = 0;
  std::int64_t longest = 0;
  for (const AttentionTile& tile : call.tiles) {
    const TileRange& range = ranges.emplace_back(range_of(call, tile));
    splits += range.max_splits;
    longest = std::max(longest, range.max_splits);
  }
  if (longest < 2) return {};
  // A quarter more than its share of all work is no reason to share a tile; but what has been
  // shared is shared on, so that a graph lasts.
  const std::int64_t share =
      splits * call.kv_heads * (call.least_parts > 0 ? 4 : 5) / (4 * kAttentionBlocks);
  for (std::int64_t walked = std::max<std::int64_t>(1, share); walked < longest; walked *= 2) {
    std::int64_t rows = 0;
    for (const TileRange& range : ranges)
      rows += range.max_splits > walked ? range.max_splits * range.rows : range.rows;
    if (rows * row_bytes(call) <= kMaxPartialBytes) return share_splits(call, walked);
  }
  return walk_splits(call, static_cast<std::int64_t>(call.tiles.size()));
}

}  // namespace saccade::cuda
