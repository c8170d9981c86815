#include "memory/accounting.h"

#include <algorithm>
#include <vector>

#include "memory/embedding_store.h"
#include "memory/kv_allocator.h"
#include "memory/page_math.h"

namespace saccade {
namespace {

// Positions of [first, last) inside [low, high).
std::int64_t overlap(std::int64_t first, std::int64_t last, std::int64_t low, std::int64_t high) {
  return std::max<std::int64_t>(0, std::min(last, high) - std::max(first, low));
}

// Bytes of one block: written, and still to be read.
struct BlockUse {
  std::int64_t written = -1;  // -1: no sequence holds it
  std::int64_t useful = 0;
};

}  // namespace

MemoryUse& MemoryUse::operator+=(const MemoryUse& other) {
  useful += other.useful;
  tail += other.tail;
  slack += other.slack;
  pad += other.pad;
  overhold += other.overhold;
  reserve += other.reserve;
  cached += other.cached;
  free += other.free;
  return *this;
}

// Goes through the blocks of every sequence. What a block holds is judged by the layers' own kinds,
// not by the group's: paged keeps window layers in a full-attention group.
class KvAudit {
 public:
  explicit KvAudit(const KvAllocator& allocator) : allocator_(allocator) {}

  MemoryUse run() const {
    const PagePlan& plan = allocator_.plan();
    const PagePool& pool = allocator_.store().pool();
    MemoryUse use;
    use.reserve = pool.reserved_large() * plan.large_bytes;
    use.free = (pool.free_large() - pool.reserved_large()) * plan.large_bytes;
    use.pad = allocator_.settings().pool_bytes - pool.large_pages() * plan.large_bytes;
    for (int group = 0; group < static_cast<int>(plan.groups.size()); ++group) {
      measure_group(group, use);
    }
    return use;
  }

 private:
  void measure_group(int group, MemoryUse& use) const {
    const BlockStore& store = allocator_.store();
    const GroupPlan& plan = allocator_.group_plan(group);
    const std::int64_t taken = store.pool().taken(group);
    const std::int64_t held = store.pool().held_large(group);
    use.slack += held * allocator_.plan().large_bytes - taken * plan.page_bytes;
    use.pad += taken * (plan.page_bytes - plan.used_bytes);

    std::vector<BlockUse> blocks(at_index(store.blocks(group)));
    for (const KvSequence* sequence : allocator_.slots_) {
      if (sequence != nullptr) visit(group, *sequence, blocks);
    }
    const std::int64_t block_bytes = plan.used_bytes * plan.tables;
    std::int64_t seen = 0;
    for (const BlockUse& block : blocks) {
      if (block.written < 0) continue;
      ++seen;
      use.useful += block.useful;
      use.overhold += block.written - block.useful;
      use.tail += block_bytes - block.written;
    }
    use.cached += (taken / plan.tables - seen) * block_bytes;
  }

  void visit(int group, const KvSequence& sequence, std::vector<BlockUse>& blocks) const {
    const std::vector<BlockId>& held = sequence.groups_[at_index(group)].blocks;
    for (std::size_t index = 0; index < held.size(); ++index) {
      if (held[index] == kNoBlock) continue;
      const BlockUse use = use_of(group, sequence, static_cast<std::int64_t>(index));
      BlockUse& all = blocks[at_index(held[index])];
      all.written = std::max(all.written, use.written);
      all.useful = std::max(all.useful, use.useful);
    }
  }

  BlockUse use_of(int group, const KvSequence& sequence, std::int64_t block) const {
    const GroupPlan& plan = allocator_.group_plan(group);
    const std::int64_t computed = sequence.computed_;
    if (plan.kind == CacheKind::kState) {
      const std::int64_t interval = plan.block_tokens;
      const std::int64_t current = interval == 0 || computed == 0 ? 0 : (computed - 1) / interval;
      const std::int64_t bytes = plan.used_bytes * plan.tables;
      return {block <= current && computed > 0 ? bytes : 0,
              block == current && computed > 0 ? bytes : 0};
    }
    const std::int64_t first = block * plan.block_tokens;
    const std::int64_t last = first + plan.block_tokens;
    BlockUse use{0, 0};
    if (plan.kind == CacheKind::kVisionEmbedding) {
      for (const PrefixImage& image : sequence.shape_.images) {
        const std::int64_t end = image.begin + image.tokens;
        use.written += overlap(first, last, image.begin, end);
        use.useful += overlap(first, last, std::max(image.begin, computed), end);
      }
      const std::int64_t row_bytes = plan.used_bytes * plan.tables / plan.block_tokens;
      return {use.written * row_bytes, use.useful * row_bytes};
    }
    const std::int64_t encoder =
        plan.stream == TokenStream::kText ? 0 : sequence.shape_.encoder_tokens;
    const std::int64_t end = plan.stream == TokenStream::kEncoder ? encoder : encoder + computed;
    for (const int layer : plan.layers) {
      const LayerSpec& spec = allocator_.plan().layers[at_index(layer)];
      const std::int64_t row_bytes = spec.token_bytes();
      use.written += row_bytes * overlap(first, last, 0, end);
      if (spec.kind == CacheKind::kCrossAttention) {
        use.useful += row_bytes * overlap(first, last, 0, encoder);
        continue;
      }
      const std::int64_t low =
          spec.kind == CacheKind::kSlidingWindow ? window_begin(spec.window, computed) : 0;
      use.useful += row_bytes * overlap(first, last, encoder + low, end);
    }
    return use;
  }

  const KvAllocator& allocator_;
};

MemoryUse measure(const KvAllocator& allocator) { return KvAudit(allocator).run(); }

MemoryUse measure(const EmbeddingStore& store) {
  MemoryUse use;
  use.useful = store.used_bytes();
  use.tail = store.leased_bytes() - store.used_bytes();
  use.cached = store.cached_bytes();
  use.reserve = store.capacity_bytes() - store.leased_bytes() - store.cached_bytes();
  return use;
}

}  // namespace saccade
