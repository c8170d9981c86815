// The slow twins of attention and of its cache: sums in double precision, one after the other.
#pragma once

#include "ops/device.h"

namespace saccade {

// Shapes have been checked.
void reference_kv_write(const KvWriteArgs& args);
void reference_paged_attention(const PagedAttentionArgs& args);
void reference_segment_attention(const SegmentAttentionArgs& args);

}  // namespace saccade
