// The shape rules of every op, CHECKed in one place for all devices: a breach is a bug in the
// family that called. What lists hold is checked where the host can read it.
#pragma once

#include <algorithm>

#include "ops/device.h"

namespace saccade {

void check_shapes(std::span<const StoredMatrix> parts, DType compute);  // of pack
void check_shapes(const GemmArgs& args);
void check_shapes(const NormArgs& args);
void check_shapes(const RopeTableArgs& args);
void check_shapes(const RopeArgs& args);
void check_shapes(std::span<const SequenceSpan> spans, const AttentionGeometry& geometry);
void check_shapes(std::span<const std::int32_t> begins, const SegmentGeometry& geometry);
void check_shapes(const KvWriteArgs& args);
void check_shapes(const QkvArgs& args);
void check_shapes(const PagedAttentionArgs& args);
void check_shapes(const SegmentAttentionArgs& args);
void check_shapes(const GatedArgs& args);
void check_shapes(const MlpArgs& args);
void check_shapes(const NormedGemmArgs& args);
void check_shapes(const NormedMlpArgs& args);
void check_shapes(const ExpertsArgs& args);
void check_shapes(const CausalConvArgs& args);
void check_shapes(const DeltaRuleArgs& args);
void check_shapes(const EmbedArgs& args);
void check_shapes(const MixRowsArgs& args);
void check_shapes(const CutPatchesArgs& args);
void check_shapes(const CopyRowsArgs& args);
void check_copy_shapes(View from, View to);
void check_add_shapes(View x, View y);
void check_row_stats_shapes(View logits, View stats);
void check_shapes(const SampleArgs& args);

// Tokens that position `position` of the sequence sees: [begin, end).
struct Visible {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
inline Visible visible_to(const SequenceSpan& span, std::int64_t position, std::int64_t window) {
  if (position < span.prefix) return {0, span.prefix};
  const std::int64_t begin = window > 0 && position >= window ? position - window + 1 : 0;
  const auto interval = std::ranges::upper_bound(span.both_ways, position, {}, &TokenInterval::end);
  const bool inside = interval != span.both_ways.end() && interval->begin <= position;
  return {begin, inside ? interval->end : position + 1};
}

inline bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kBf16 || type == DType::kF16;
}

}  // namespace saccade
