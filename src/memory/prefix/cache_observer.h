// Who is told what the prefix cache holds, as it changes: so that others can send a prompt to where
// its beginning is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "memory/page_plan.h"
#include "memory/prefix/prefix_content.h"

namespace saccade {

// A full block of text that can be found from now on. Views are valid during the call.
struct StoredBlock {
  int group = 0;  // of layers; a block is stored once for each
  CacheKind kind = CacheKind::kFull;
  std::int64_t window = 0;  // tokens, of kSlidingWindow
  // Of its tokens and all before them, salt, images and adapter included. Equal contents have equal
  // names, in other processes too.
  std::uint64_t name = 0;
  std::optional<std::uint64_t> parent;  // absent: a prompt begins with it
  std::span<const std::int32_t> tokens;
  std::span<const BlockContent::Mark> images;
  PrefixAdapter adapter;  // that they were computed with first
};

// Called by the thread that owns the allocator; must not block.
class CacheObserver {
 public:
  virtual ~CacheObserver() = default;
  virtual void stored(const StoredBlock& block) = 0;
  virtual void removed(int group, std::uint64_t name) = 0;  // it has been stored
  virtual void cleared() = 0;                               // all, of all groups
};

}  // namespace saccade
