// The parts of attention plans that every device has.
#include <algorithm>

#include "ops/device.h"
#include "ops/shapes.h"

namespace saccade {

AttentionPlan::AttentionPlan(std::span<const SequenceSpan> spans, const AttentionGeometry& geometry)
    : geometry_(geometry), spans_(spans.begin(), spans.end()) {
  check_shapes(spans, geometry);
  std::size_t blocks = 0;
  std::size_t intervals = 0;
  for (const SequenceSpan& span : spans) {
    blocks += span.blocks.size();
    intervals += span.both_ways.size();
  }
  blocks_.reserve(blocks);  // the copies refer into it: it must not move
  both_ways_.reserve(intervals);
  for (SequenceSpan& span : spans_) {
    const auto block = blocks_.insert(blocks_.end(), span.blocks.begin(), span.blocks.end());
    span.blocks = {block, span.blocks.size()};
    const auto interval =
        both_ways_.insert(both_ways_.end(), span.both_ways.begin(), span.both_ways.end());
    span.both_ways = {interval, span.both_ways.size()};
    rows_ += span.row_count;
  }
  for (const std::int32_t block : blocks_)
    block_end_ = std::max<std::int64_t>(block_end_, block + std::int64_t{1});
}

SegmentPlan::SegmentPlan(std::span<const std::int32_t> begins, const SegmentGeometry& geometry)
    : geometry_(geometry), begins_(begins.begin(), begins.end()) {
  check_shapes(begins, geometry);
}

}  // namespace saccade
