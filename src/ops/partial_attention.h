// Attention within segments, a part at a time: what a stream can do whose work runs during the call
// that submits it, where the whole of a large picture would hold up everybody else. Streams that
// can are found by dynamic_cast.
#pragma once

#include "ops/device.h"

namespace saccade {

// Queries of some rows and heads; all keys and values of their segments.
struct SegmentPart {
  std::int64_t head_begin = 0;  // these two are multiples of heads / kv_heads
  std::int64_t head_end = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  // k and v are what they were in the last call with this plan and these heads: what was made of
  // them may be used again, where it is still there.
  bool same_keys = false;
  // Keys and values are made ready for such a call, and that is all.
  bool keys_alone = false;
};

class PartialAttention {
 public:
  virtual ~PartialAttention() = default;
  // What segment_attention() gives these rows and heads, bit for bit; others are kept.
  virtual void attend_part(const SegmentAttentionArgs& args, const SegmentPart& part) = 0;
};

}  // namespace saccade
