// Attention plans as lists of the device, and the ops that go by them.
#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/libraries/flash_plan.h"
#include "ops/shapes.h"

namespace saccade::cuda {
namespace {

// The rows of sequences by the heads of a group, in tiles: those of few rows come first, those that
// a library takes last.
struct TileLists {
  std::vector<AttentionTile> few;
  std::vector<AttentionTile> many;
  std::vector<AttentionTile> library;

  void add(std::int32_t sequence, std::int64_t rows, bool by_library) {
    std::vector<AttentionTile>& to = by_library ? library : rows <= kFewAttentionRows ? few : many;
    for (std::int64_t first = 0; first < rows; first += kAttentionTileRows)
      to.push_back({sequence, static_cast<std::int32_t>(first)});
  }
  std::int64_t own() const { return static_cast<std::int64_t>(few.size() + many.size()); }
  std::vector<AttentionTile> all() const {
    std::vector<AttentionTile> tiles = few;
    tiles.insert(tiles.end(), many.begin(), many.end());
    tiles.insert(tiles.end(), library.begin(), library.end());
    return tiles;
  }
};

// Whether all of a chunk's rows see what comes before them and no more, and all of that is there.
bool plainly_causal(const SequenceSpan& span) {
  return span.prefix == 0 && span.both_ways.empty() &&
         std::ranges::all_of(span.blocks, [](std::int32_t block) { return block >= 0; });
}

KvPages pages_of(const KvLayer& layer) {
  return {.base = layer.blocks.data(),
          .block_stride = static_cast<std::int64_t>(layer.blocks.row_bytes()),
          .block_size = layer.block_size,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.head_dim,
          .type = layer.dtype()};
}

AttentionKernelArgs with_lists(const DeviceAttention& lists) {
  AttentionKernelArgs args;
  args.blocks = lists.blocks;
  args.sequences = lists.sequences;
  args.tiles = lists.tiles;
  args.tile_count = lists.tile_count;
  args.few_tiles = lists.few_tiles;
  args.seen = lists.seen;
  return args;
}

}  // namespace

DeviceSplits CudaStream::send_splits(const AttentionCall& call) {
  AttentionCall wanted = call;
  wanted.split_tokens = split_tokens_;
  std::int64_t* const least = repeated_.keeps() ? &least_parts_[repeated_.kind()] : nullptr;
  if (least != nullptr) wanted.least_parts = *least;
  const AttentionSplitPlan plan = plan_splits(wanted);
  DeviceSplits sent;
  sent.splits.tokens = split_tokens_;
  sent.splits.parts = send_list(std::span<const AttentionPart>(plan.parts));
  sent.splits.part_count = static_cast<std::int64_t>(plan.parts.size());
  sent.splits.few_parts = plan.few_parts;
  sent.splits.merges = send_list(std::span<const AttentionMerge>(plan.merges));
  sent.splits.merge_rows = plan.merge_rows;
  sent.splits.band = plan.band;
  sent.partial_bytes = plan.partial_bytes;
  sent.ended = plan.ended;
  if (least != nullptr) *least = std::max(*least, sent.splits.part_count);
  return sent;
}

// Zeros, which every call leaves as it finds them.
std::uint32_t* CudaStream::reserve_ended(std::int64_t count) {
  const std::size_t bytes = std::bit_ceil(static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  const bool there = ended_.holds(bytes);
  std::byte* const data = reserve(ended_, bytes);
  if (!there) runtime_.zero(data, ended_.bytes(), launching());
  return reinterpret_cast<std::uint32_t*>(data);
}

// What a library takes, and the rest by the own kernel.
void CudaStream::launch_attention_of(const DeviceAttention& lists, AttentionKernelArgs kernel) {
  kernel.tile_count = launch_flash(lists, kernel);
  if (kernel.tile_count == 0) return;
  const DeviceSplits& splits =
      kernel.tile_count < lists.tile_count ? lists.own_splits : lists.splits;
  kernel.splits = splits.splits;
  if (splits.partial_bytes > 0)
    kernel.splits.partials = reinterpret_cast<float*>(reserve(partials_, splits.partial_bytes));
  if (splits.ended > 0) kernel.splits.ended = reserve_ended(splits.ended);
  launch(launch_attention, kernel);
}

const AttentionPlan& CudaStream::plan_attention(std::span<const SequenceSpan> spans,
                                                const AttentionGeometry& geometry) {
  auto plan = std::make_unique<CudaAttentionPlan>(spans, geometry);
  CHECK(plan->block_end() * geometry.block_size <= std::numeric_limits<std::int32_t>::max(),
        "a pool of {} blocks of {} tokens", plan->block_end(), geometry.block_size);
  const std::int64_t group = geometry.heads / geometry.kv_heads;
  const FlashForm* const form =
      geometry.window == 0 ? device_.flash_.form(true, geometry.head_dim) : nullptr;
  std::vector<AttentionSequence> sequences;
  TileLists lists;
  std::vector<FlashSequence> flash;
  std::vector<std::int32_t> seen;
  std::vector<std::int32_t> blocks;
  std::vector<std::int32_t> slots;
  for (const SequenceSpan& span : plan->spans()) {
    if (span.row_count == 0) continue;
    const bool by_flash =
        form != nullptr && span.row_count >= device_.flash_.least_rows && plainly_causal(span);
    lists.add(static_cast<std::int32_t>(sequences.size()), span.row_count * group, by_flash);
    if (by_flash)
      flash.push_back({.query_begin = static_cast<std::int32_t>(span.row_begin),
                       .query_count = static_cast<std::int32_t>(span.row_count),
                       .key_begin = static_cast<std::int32_t>(blocks.size()),
                       .key_count = static_cast<std::int32_t>(span.context + span.row_count)});
    sequences.push_back({.row_begin = static_cast<std::int32_t>(span.row_begin),
                         .row_count = static_cast<std::int32_t>(span.row_count),
                         .first_block = static_cast<std::int32_t>(blocks.size())});
    blocks.insert(blocks.end(), span.blocks.begin(), span.blocks.end());
    for (std::int64_t row = 0; row < span.row_count; ++row) {
      const std::int64_t position = span.context + row;
      const Visible visible = visible_to(span, position, geometry.window);
      seen.push_back(static_cast<std::int32_t>(visible.begin));
      seen.push_back(static_cast<std::int32_t>(visible.end));
      const std::int64_t block =
          span.blocks[static_cast<std::size_t>(position / geometry.block_size)];
      slots.push_back(
          static_cast<std::int32_t>(block * geometry.block_size + position % geometry.block_size));
    }
  }
  const std::vector<AttentionTile> tiles = lists.all();
  const auto few_tiles = static_cast<std::int64_t>(lists.few.size());
  plan->lists = {.sequences = send_list(std::span<const AttentionSequence>(sequences)),
                 .tiles = send_list(std::span<const AttentionTile>(tiles)),
                 .tile_count = static_cast<std::int64_t>(tiles.size()),
                 .few_tiles = few_tiles,
                 .seen = send_list(std::span<const std::int32_t>(seen)),
                 .blocks = send_list(std::span<const std::int32_t>(blocks)),
                 .slots = send_list(std::span<const std::int32_t>(slots))};
  AttentionCall call = {.tiles = tiles,
                        .few_tiles = few_tiles,
                        .sequences = sequences,
                        .seen = seen,
                        .heads = geometry.heads,
                        .kv_heads = geometry.kv_heads,
                        .head_dim = geometry.head_dim};
  plan->lists.splits = send_splits(call);
  if (!flash.empty()) {
    call.tiles = call.tiles.first(static_cast<std::size_t>(lists.own()));
    plan->lists.own_splits = send_splits(call);
    plan_flash(plan->lists, *form, geometry.heads, flash, lists.own());
  }
  return *attention_plans_.emplace_back(std::move(plan));
}

const SegmentPlan& CudaStream::plan_segments(std::span<const std::int32_t> begins,
                                             const SegmentGeometry& geometry) {
  auto plan = std::make_unique<CudaSegmentPlan>(begins, geometry);
  const std::int64_t group = geometry.heads / geometry.kv_heads;
  std::vector<AttentionSequence> sequences;
  const FlashForm* const form = device_.flash_.form(false, geometry.head_dim);
  TileLists lists;
  std::vector<FlashSequence> flash;
  std::vector<std::int32_t> seen;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    const std::int32_t count = begins[i + 1] - begins[i];
    const bool by_flash = form != nullptr && count >= device_.flash_.least_rows;
    lists.add(static_cast<std::int32_t>(i), count * group, by_flash);
    if (by_flash) flash.push_back({begins[i], count, begins[i], count});
    sequences.push_back({.row_begin = begins[i], .row_count = count, .first_block = begins[i]});
    for (std::int32_t row = 0; row < count; ++row) {
      seen.push_back(0);
      seen.push_back(count);
    }
  }
  const std::vector<AttentionTile> tiles = lists.all();
  const auto few_tiles = static_cast<std::int64_t>(lists.few.size());
  plan->lists = {.sequences = send_list(std::span<const AttentionSequence>(sequences)),
                 .tiles = send_list(std::span<const AttentionTile>(tiles)),
                 .tile_count = static_cast<std::int64_t>(tiles.size()),
                 .few_tiles = few_tiles,
                 .seen = send_list(std::span<const std::int32_t>(seen))};
  AttentionCall call = {.tiles = tiles,
                        .few_tiles = few_tiles,
                        .sequences = sequences,
                        .seen = seen,
                        .heads = geometry.heads,
                        .kv_heads = geometry.kv_heads,
                        .head_dim = geometry.head_dim};
  plan->lists.splits = send_splits(call);
  if (!flash.empty()) {
    call.tiles = call.tiles.first(static_cast<std::size_t>(lists.own()));
    plan->lists.own_splits = send_splits(call);
    plan_flash(plan->lists, *form, geometry.heads, flash, lists.own());
  }
  return *segment_plans_.emplace_back(std::move(plan));
}

void CudaStream::kv_write(const KvWriteArgs& args) {
  check_shapes(args);
  if (args.plan->rows() == 0) return;
  flush();
  QkvKernelArgs kernel;
  kernel.k = rows_of(args.k);
  kernel.v = rows_of(args.v);
  kernel.head_dim = args.layer.head_dim;
  kernel.pages = pages_of(args.layer);
  kernel.slots = static_cast<const CudaAttentionPlan*>(args.plan)->lists.slots;
  launch(launch_qkv, kernel);
}

void CudaStream::qkv(const QkvArgs& args) {
  if (!args.norm.empty() && args.subtract_mean) return Stream::qkv(args);
  check_shapes(args);
  if (args.plan->rows() == 0) return;
  flush();
  const std::int64_t dim = args.layer.head_dim;
  const std::int64_t keys = args.queries();
  const std::int64_t values = keys + args.keys();
  QkvKernelArgs kernel;
  kernel.q = kernel.q_out = rows_of(args.qkv.col_range(0, keys));
  kernel.k = rows_of(args.qkv.col_range(keys, values));
  kernel.v = rows_of(args.qkv.col_range(values, args.qkv.cols()));
  kernel.head_dim = dim;
  if (!args.norm.empty()) {
    const auto* const weight = reinterpret_cast<const float*>(data_of(args.norm));
    kernel.q_norm = {weight, args.epsilon, args.weight_offset, dim};
    kernel.k_norm = {weight + keys, args.epsilon, args.weight_offset, dim};
  }
  kernel.cos = rows_of(args.cos);
  kernel.sin = rows_of(args.sin);
  kernel.pages = pages_of(args.layer);
  kernel.slots = static_cast<const CudaAttentionPlan*>(args.plan)->lists.slots;
  launch(launch_qkv, kernel);
}

void CudaStream::paged_attention(const PagedAttentionArgs& args) {
  check_shapes(args);
  if (args.plan->rows() == 0) return;
  flush();
  const DeviceAttention& lists = static_cast<const CudaAttentionPlan*>(args.plan)->lists;
  AttentionKernelArgs kernel = with_lists(lists);
  kernel.q = rows_of(args.q);
  kernel.heads = args.plan->geometry().heads;
  kernel.kv_heads = args.layer.kv_heads;
  kernel.head_dim = args.layer.head_dim;
  kernel.pages = pages_of(args.layer);
  kernel.scale = args.scale;
  kernel.softcap = args.softcap;
  kernel.out = rows_of(args.out);
  launch_attention_of(lists, kernel);
}

void CudaStream::segment_attention(const SegmentAttentionArgs& args) {
  check_shapes(args);
  if (args.plan->rows() == 0) return;
  flush();
  const DeviceAttention& lists = static_cast<const CudaSegmentPlan*>(args.plan)->lists;
  AttentionKernelArgs kernel = with_lists(lists);
  const SegmentGeometry& geometry = args.plan->geometry();
  kernel.q = rows_of(args.q);
  kernel.k = rows_of(args.k);
  kernel.v = rows_of(args.v);
  kernel.heads = geometry.heads;
  kernel.kv_heads = geometry.kv_heads;
  kernel.head_dim = geometry.head_dim;
  kernel.scale = args.scale;
  kernel.out = rows_of(args.out);
  launch_attention_of(lists, kernel);
}

}  // namespace saccade::cuda
