// What a kind of layer needs of the cache: the one interface behind which kinds differ. Everything
// is in blocks of the group; block b covers tokens [b * block_tokens, (b + 1) * block_tokens).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "memory/page_plan.h"
#include "memory/prefix/prefix_content.h"

namespace saccade {

using BlockId = std::int32_t;
constexpr BlockId kNoBlock = -1;

// Blocks [first, last).
struct BlockRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t count() const { return last > first ? last - first : 0; }
};

// Stateless. Token counts are of the group's own stream.
class LayerPolicy {
 public:
  virtual ~LayerPolicy() = default;

  // Blocks that must be there while tokens [begin, end) are computed, the ones they write included.
  virtual BlockRange needed(std::int64_t begin, std::int64_t end,
                            std::span<const PrefixImage> images) const = 0;
  // True for a block inside needed() that takes no page after all (text between images).
  virtual bool skips(std::int64_t block, std::span<const PrefixImage> images) const;
  // Blocks below this index are never read again once tokens [0, computed) are in.
  virtual std::int64_t first_live(std::int64_t computed) const = 0;
  // Most blocks held at once by a sequence of `tokens` computed in chunks of at most `chunk`.
  virtual std::int64_t peak_blocks(std::int64_t tokens, std::int64_t chunk,
                                   std::span<const PrefixImage> images) const = 0;
  // Longest prefix of at most `limit` tokens that can be resumed from when cached[b] is block b, or
  // kNoBlock. 0 when none can.
  virtual std::int64_t longest_hit(std::int64_t limit, std::span<const BlockId> cached) const = 0;
  // Of a hit of `tokens`, the blocks that will be read again: they are touched, the rest is not.
  virtual BlockRange kept(std::int64_t tokens) const = 0;
  // Where a chunk that wants [begin, end) has to stop: a state must be caught at its checkpoints.
  virtual std::int64_t chunk_end(std::int64_t begin, std::int64_t end) const;
  // Whether a full block may be named and found again.
  virtual bool cacheable() const = 0;
  // Whether the block after a kept one starts as its copy (recurrent state) and not empty.
  virtual bool continues_from_copy() const { return false; }
};

std::unique_ptr<LayerPolicy> make_layer_policy(const GroupPlan& group);

// First token that a window of `window` still reads when token `position` is computed.
std::int64_t window_begin(std::int64_t window, std::int64_t position);

}  // namespace saccade
