// Pages of the KV pool for one model: integers and bytes, no tensors. What the scheduler asks, and
// the one place where plan, policies, pool, prefix cache and eviction meet.
//
// A sequence's life:
//   match    how much of it is cached                    (changes nothing)
//   admit    take the hit, if the whole prompt has room  (all or nothing)
//   extend   pages for the next tokens                   (all or nothing)
//   commit   those tokens are computed: name full blocks, as far as their tokens are known
//   name     more tokens are known: name the blocks that commit could not
//   give_back  pages were extended for tokens that did not come after all
//   release  at the end, or when preempted
// Between extend and commit, copies() says which pages have to be copied before the step computes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/prefix/block_store.h"
#include "memory/prefix/cache_observer.h"
#include "memory/prefix/prefix_cache.h"

namespace saccade {

struct KvSettings {
  PagePlanSettings plan;
  std::int64_t pool_bytes = 0;
  bool prefix_caching = true;
  double watermark = 0.01;            // of the pool: kept free of newcomers while something runs
  CacheObserver* observer = nullptr;  // of the prefix cache; null: nobody. Outlives the allocator
};

// A page's bytes that must be copied inside the pool before the next forward.
struct KvCopy {
  int group = 0;
  int table = 0;
  PageId from = kNoPage;
  PageId to = kNoPage;
};

// What is cached of a sequence.
struct PrefixHit {
  std::int64_t tokens = 0;
  std::vector<NodeId> path;          // one a text block, the last one possibly used in part
  std::vector<NodeId> encoder_path;  // one an encoder block
};

// What a sequence is to the allocator, besides its content.
struct KvShape {
  std::int64_t prompt_tokens = 0;         // to be computed before the first token is sampled
  std::int64_t encoder_tokens = 0;        // cross attention only
  std::span<const PrefixImage> images;    // of the text; they outlive the admission
  std::int64_t bidirectional_prefix = 0;  // tokens that see each other both ways; 0: causal
};

// The allocator's record of one admitted sequence. Owned by the caller, not moved while admitted.
class KvSequence {
 public:
  bool admitted() const { return slot_ >= 0; }
  std::int64_t computed() const { return computed_; }
  // Its place among the sequences admitted at once, below PagePlanSettings::max_sequences;
  // another's once it has been released.
  std::int32_t slot() const { return static_cast<std::int32_t>(slot_); }
  // Pages of a table, one a block; kNoPage where the kind let go. Valid until the next extend.
  std::span<const PageId> table(int table) const {
    return tables_[static_cast<std::size_t>(table)];
  }

 private:
  friend class KvAllocator;
  friend class KvAudit;
  struct Group {
    std::vector<BlockId> blocks;  // kNoBlock where there is none
    std::int64_t first_live = 0;  // blocks below are gone
    std::int64_t held = 0;        // blocks
    std::int64_t peak = 0;        // blocks that the prompt will hold at most
    std::int64_t promised = 0;    // of them, not taken yet
  };
  OwnerId slot_ = -1;
  std::int64_t computed_ = 0;
  std::int64_t room_ = 0;  // tokens that there are pages for, at least
  KvShape shape_;
  std::vector<Group> groups_;
  std::vector<std::vector<PageId>> tables_;  // [tables of the plan]
  NodeId cursor_ = kNoNode;                  // of the last full block that was named; pinned
  std::int64_t cursor_tokens_ = 0;
  std::vector<BlockId> copy_sources_;  // [groups] cached block whose copy begins the next block
  std::vector<KvCopy> copies_;
};

// One thread.
class KvAllocator {
 public:
  // kInvalid for a plan or setting that cannot be, kTooLarge when the pool holds no block of each
  // group.
  static Result<std::unique_ptr<KvAllocator>> create(std::span<const LayerSpec> layers,
                                                     const KvSettings& settings);
  KvAllocator(const KvAllocator&) = delete;
  KvAllocator& operator=(const KvAllocator&) = delete;

  const PagePlan& plan() const { return store_.plan(); }
  const KvSettings& settings() const { return settings_; }

  // Whether the pool could hold such a sequence if it were alone, computed in chunks of at most
  // `chunk` tokens.
  bool fits(const KvShape& shape, std::int64_t tokens, std::int64_t chunk) const;
  std::int64_t longest_sequence(std::int64_t chunk, std::int64_t limit) const;

  // At most `limit` tokens: the prompt but its last token, which is always computed.
  PrefixHit match(const PrefixContent& content, const KvShape& shape, std::int64_t limit) const;
  // Takes what `hit` found, if the whole prompt could be held now when computed in chunks of at
  // most `chunk`. Not kNow: nothing has changed; kNever: nor will it. computed() is then what was
  // taken, which can be less than the hit where room is tight. The first extend will succeed.
  Admission admit(KvSequence& sequence, const PrefixContent& content, const KvShape& shape,
                  const PrefixHit& hit, std::int64_t chunk);
  // Where a chunk that wants [computed, end) has to stop.
  std::int64_t chunk_end(std::int64_t begin, std::int64_t end) const;
  // Pages for tokens up to `end`, and of full-attention groups up to `reserve` if that is more.
  // False: not now, and nothing has changed.
  bool extend(KvSequence& sequence, std::int64_t end, std::int64_t reserve = 0);
  // Lets go of what no later token reads. Called before a chunk is planned.
  void free_skipped(KvSequence& sequence);
  // Page copies that must run, in order, before the next forward.
  void take_copies(KvSequence& sequence, std::vector<KvCopy>& out);
  // Tokens [0, computed) are in their pages, or will be before anything that is launched later
  // reads them: full blocks get names. `content` holds at least the prompt; tokens that are still
  // being sampled may be missing at its end, and name() comes once they are there.
  void commit(KvSequence& sequence, const PrefixContent& content, std::int64_t computed);
  void name(KvSequence& sequence, const PrefixContent& content);
  // Lets go of the blocks that hold no computed token. Not of a group that keeps a state: what is
  // written into one cannot be taken back.
  void give_back(KvSequence& sequence);
  void release(KvSequence& sequence);

  // Changes whenever pages come free: who could not be admitted need not ask again before.
  std::uint64_t releases() const { return releases_; }
  // 0 to 1, cached pages counted as free: what dashboards call KV cache usage.
  double usage() const;
  void reset_prefix_cache();
  const BlockStore& store() const { return store_; }
  const PrefixCache& prefixes() const { return prefixes_; }
  void check() const;  // every invariant; linear

 private:
  friend class KvAudit;
  KvAllocator(PagePlan plan, const KvSettings& settings, std::int64_t large_pages);

  int groups() const { return static_cast<int>(policies_.size()); }
  const LayerPolicy& policy(int group) const { return *policies_[static_cast<std::size_t>(group)]; }
  const GroupPlan& group_plan(int group) const {
    return plan().groups[static_cast<std::size_t>(group)];
  }
  bool cacheable(int group) const;
  std::int64_t peak_blocks(int group, const KvShape& shape, std::int64_t tokens,
                           std::int64_t chunk) const;
  BlockRange needed(int group, const KvSequence& sequence, std::int64_t end) const;
  std::vector<BlockId> cached_blocks(int group, const PrefixHit& hit) const;
  std::int64_t group_hit(int group, const PrefixHit& hit, const KvShape& shape,
                         std::int64_t limit) const;
  std::int64_t common_hit(const PrefixHit& hit, const KvShape& shape, std::int64_t limit) const;

  void open(KvSequence& sequence, const KvShape& shape, std::int64_t chunk);
  void close(KvSequence& sequence);
  void attach_hit(KvSequence& sequence, const PrefixContent& content, const PrefixHit& hit,
                  std::int64_t tokens);
  void detach_hit(KvSequence& sequence);
  bool prompt_has_room(const KvSequence& sequence) const;
  void take_block(KvSequence& sequence, int group, std::int64_t* quota);
  void start_as_copy(KvSequence& sequence, int group, BlockId from, BlockId to);
  void drop_block(KvSequence& sequence, int group, std::int64_t block, bool early);
  void update_promise(KvSequence& sequence);
  void name_blocks(KvSequence& sequence, const PrefixContent& content, std::int64_t before);
  void name_partial(KvSequence& sequence, const PrefixContent& content, std::int64_t end);
  void name_encoder_blocks(KvSequence& sequence, const PrefixContent& content);
  void give_name(int group, BlockId block, NodeId node, const PrefixAdapter* full);
  void forget(int group, BlockNames names);
  bool observed(int group) const;
  void notify_stored(int group, NodeId node, const PrefixAdapter& adapter) const;
  void check_sequences() const;

  KvSettings settings_;
  BlockStore store_;
  PrefixCache prefixes_;
  std::vector<std::unique_ptr<LayerPolicy>> policies_;  // [groups]
  // extend()'s scratch, [groups]: blocks that are missing.
  std::vector<BlockRange> missing_;
  std::vector<std::int64_t> missing_counts_;
  std::vector<std::int64_t> promised_;  // [groups] blocks, of all sequences
  std::vector<KvSequence*> slots_;      // null: free
  std::vector<OwnerId> free_slots_;
  std::int64_t admitted_ = 0;
  std::int64_t turn_ = 0;  // stamps of releases
  bool plain_ = true;      // full attention to text alone: nothing is ever let go of early
  bool clearing_ = false;  // all names go, and the observer is told once
  std::uint64_t releases_ = 0;
};

}  // namespace saccade
