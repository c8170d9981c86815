// KvAllocator's dealings with names: what commit gives to the prefix cache and what eviction takes
// away again; and the check of all of it.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "memory/kv_allocator.h"
#include "memory/page_math.h"

namespace saccade {
void KvAllocator::commit(KvSequence& sequence, const PrefixContent& content,
                         std::int64_t computed) {
  CHECK(computed >= sequence.computed_, "{} tokens after {}", computed, sequence.computed_);
  CHECK(sequence.copies_.empty(), "{} copies have not run", sequence.copies_.size());
  const std::int64_t before = std::exchange(sequence.computed_, computed);
  if (before == computed) return;
  for (int group = 0; group < groups(); ++group) {
    BlockId& source = sequence.copy_sources_[at_index(group)];
    if (source == kNoBlock) continue;
    store_.drop(group, std::exchange(source, kNoBlock), {false, turn_, before});
  }
  if (settings_.prefix_caching) name_blocks(sequence, content, before);
  update_promise(sequence);
}

void KvAllocator::name(KvSequence& sequence, const PrefixContent& content) {
  if (settings_.prefix_caching) name_blocks(sequence, content, sequence.computed_);
}

void KvAllocator::name_blocks(KvSequence& sequence, const PrefixContent& content,
                              std::int64_t before) {
  const std::int64_t block_tokens = plan().block_tokens;
  const std::int64_t known =
      std::min(sequence.computed_, static_cast<std::int64_t>(content.tokens.size()));
  // Nearly always, while an answer grows: no block has become full and no image has ended.
  const bool image_ends =
      !content.images.empty() && content.images.back().begin + content.images.back().tokens >
                                     std::max(sequence.cursor_tokens_, before);
  if (sequence.cursor_tokens_ + block_tokens > known && !image_ends &&
      sequence.shape_.encoder_tokens == 0)
    return;
  const bool all_images =
      sequence.shape_.images.empty() ||
      sequence.shape_.images.back().begin + sequence.shape_.images.back().tokens <=
          sequence.computed_;
  if (sequence.shape_.encoder_tokens > 0 && all_images) name_encoder_blocks(sequence, content);
  while (true) {
    const std::int64_t begin = sequence.cursor_tokens_;
    const std::int64_t end = begin + block_tokens;
    // A block that an image ends in is also found by whoever shares only the image.
    const std::int64_t image_end = last_image_end(content.images, std::max(begin, before),
                                                  std::min(end - 1, sequence.computed_));
    if (image_end > begin) name_partial(sequence, content, image_end);
    if (end > known) return;

    const NodeId node = prefixes_.insert(
        sequence.cursor_, block_content(content.tokens, content.images, begin, block_tokens));
    prefixes_.pin(node);
    prefixes_.unpin(std::exchange(sequence.cursor_, node));
    sequence.cursor_tokens_ = end;
    for (int group = 0; group < groups(); ++group) {
      const GroupPlan& group_of = group_plan(group);
      if (!cacheable(group) || group_of.stream != TokenStream::kText) continue;
      if (end % group_of.block_tokens != 0) continue;
      const std::int64_t block = end / group_of.block_tokens - 1;
      const std::vector<BlockId>& blocks = sequence.groups_[at_index(group)].blocks;
      if (block < static_cast<std::int64_t>(blocks.size())) {
        give_name(group, blocks[at_index(block)], node, &content.adapter);
      }
    }
  }
}

void KvAllocator::name_partial(KvSequence& sequence, const PrefixContent& content,
                               std::int64_t end) {
  const std::int64_t begin = sequence.cursor_tokens_;
  const NodeId node = prefixes_.insert(
      sequence.cursor_, block_content(content.tokens, content.images, begin, end - begin));
  prefixes_.pin(node);
  for (int group = 0; group < groups(); ++group) {
    const GroupPlan& group_of = group_plan(group);
    if (!cacheable(group) || group_of.stream != TokenStream::kText) continue;
    if (group_of.block_tokens != plan().block_tokens) continue;  // a state is caught whole
    const std::int64_t block = begin / plan().block_tokens;
    const std::vector<BlockId>& blocks = sequence.groups_[at_index(group)].blocks;
    if (block < static_cast<std::int64_t>(blocks.size())) {
      give_name(group, blocks[at_index(block)], node, nullptr);
    }
  }
  prefixes_.unpin(node);
}

// Cross-attention pages are written with the chunks that hold their images' tokens, or where these
// are not in the text with the first: they get names once all are.
void KvAllocator::name_encoder_blocks(KvSequence& sequence, const PrefixContent& content) {
  const std::int64_t block_tokens = plan().block_tokens;
  const std::int64_t tokens = sequence.shape_.encoder_tokens;
  NodeId parent = prefixes_.root(encoder_root(content));
  prefixes_.pin(parent);
  for (std::int64_t begin = 0; begin < tokens; begin += block_tokens) {
    const std::int64_t count = std::min(block_tokens, tokens - begin);
    const NodeId node =
        prefixes_.insert(parent, block_content({}, content.encoder_images, begin, count));
    prefixes_.pin(node);
    for (int group = 0; group < groups(); ++group) {
      if (!cacheable(group) || group_plan(group).stream != TokenStream::kEncoder) continue;
      give_name(group, sequence.groups_[at_index(group)].blocks[at_index(begin / block_tokens)],
                node, &content.adapter);
    }
    prefixes_.unpin(std::exchange(parent, node));
  }
  prefixes_.unpin(parent);
}

// The first block of a content keeps its name; a later twin stays nameless and dies with its
// sequence. `full`: of a block that is, its adapter; null: it is not.
void KvAllocator::give_name(int group, BlockId block, NodeId node, const PrefixAdapter* full) {
  if (block == kNoBlock || prefixes_.block(node, group) != kNoBlock) return;
  BlockNames& names = store_.names(group, block);
  NodeId& name = full != nullptr ? names.full : names.partial;
  if (name != kNoNode) return;
  name = node;
  prefixes_.attach(node, group, block);
  if (full != nullptr && observed(group)) notify_stored(group, node, *full);
}

// Keys and values of text, block by block; states and encoders' rows are not told of.
bool KvAllocator::observed(int group) const {
  const GroupPlan& of = group_plan(group);
  return settings_.observer != nullptr && of.stream == TokenStream::kText &&
         (of.kind == CacheKind::kFull || of.kind == CacheKind::kSlidingWindow);
}

void KvAllocator::notify_stored(int group, NodeId node, const PrefixAdapter& adapter) const {
  const GroupPlan& of = group_plan(group);
  const BlockContent content = prefixes_.content(node);
  StoredBlock block;
  block.group = group;
  block.kind = of.kind;
  block.window = of.window;
  block.name = prefixes_.chain(node);
  const NodeId parent = prefixes_.parent(node);
  if (prefixes_.parent(parent) != kNoNode) block.parent = prefixes_.chain(parent);
  block.tokens = content.tokens;
  block.images = content.marks;
  block.adapter = adapter;
  settings_.observer->stored(block);
}

void KvAllocator::forget(int group, BlockNames names) {
  if (observed(group) && names.full != kNoNode && !clearing_)
    settings_.observer->removed(group, prefixes_.chain(names.full));
  for (const NodeId node : {names.full, names.partial}) {
    if (node != kNoNode) prefixes_.detach(node, group);
  }
}

void KvAllocator::reset_prefix_cache() {
  clearing_ = true;
  store_.forget_all();
  clearing_ = false;
  if (settings_.observer != nullptr) settings_.observer->cleared();
  ++releases_;
}

void KvAllocator::check() const {
  store_.check();
  prefixes_.check();
  std::int64_t named = 0;
  for (int group = 0; group < groups(); ++group) {
    for (BlockId block = 0; block < store_.blocks(group); ++block) {
      const BlockNames& names = store_.names(group, block);
      for (const NodeId node : {names.full, names.partial}) {
        if (node == kNoNode) continue;
        ++named;
        CHECK(prefixes_.block(node, group) == block, "node {} group {}: block {} is not {}", node,
              group, prefixes_.block(node, group), block);
      }
    }
  }
  CHECK(named == prefixes_.held(), "{} names, {} in the prefix cache", named, prefixes_.held());
  check_sequences();
}

void KvAllocator::check_sequences() const {
  std::int64_t admitted = 0;
  for (int group = 0; group < groups(); ++group) {
    std::vector<int> readers(at_index(store_.blocks(group)));
    std::int64_t promised = 0;
    admitted = 0;
    for (const KvSequence* sequence : slots_) {
      if (sequence == nullptr) continue;
      ++admitted;
      const KvSequence::Group& of = sequence->groups_[at_index(group)];
      promised += of.promised;
      std::int64_t held = 0;
      for (std::size_t block = 0; block < of.blocks.size(); ++block) {
        const BlockId id = of.blocks[block];
        for (int table = 0; table < group_plan(group).tables; ++table) {
          const PageId page = sequence->table(plan().first_table(group) + table)[block];
          CHECK(page == (id == kNoBlock ? kNoPage : store_.page(group, id, table)), "group {}",
                group);
        }
        if (id == kNoBlock) continue;
        ++held;
        ++readers[at_index(id)];
      }
      CHECK(held == of.held, "group {}: {} blocks held, counted {}", group, of.held, held);
      const BlockId source = sequence->copy_sources_[at_index(group)];
      if (source != kNoBlock) ++readers[at_index(source)];
    }
    CHECK(promised == promised_[at_index(group)], "group {}: {} blocks promised, counted {}", group,
          promised_[at_index(group)], promised);
    for (BlockId block = 0; block < store_.blocks(group); ++block) {
      CHECK(readers[at_index(block)] == store_.readers(group, block),
            "group {} block {}: {} readers, counted {}", group, block, store_.readers(group, block),
            readers[at_index(block)]);
    }
  }
  CHECK(admitted == admitted_, "{} admitted, counted {}", admitted_, admitted);
}

}  // namespace saccade
