#include "memory/kv_allocator.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "memory/page_math.h"

namespace saccade {
Result<std::unique_ptr<KvAllocator>> KvAllocator::create(std::span<const LayerSpec> layers,
                                                         const KvSettings& settings) {
  if (settings.plan.max_sequences < 1 || settings.plan.max_sequences > 1 << 20) {
    return fail(ErrorCode::kInvalid, "{} sequences at once, allowed 1 to 1048576",
                settings.plan.max_sequences);
  }
  PagePlanSettings plan_settings = settings.plan;
  if (!settings.prefix_caching) plan_settings.state_interval = 0;
  TRY(PagePlan plan, make_page_plan(layers, plan_settings));
  const std::int64_t large_pages = settings.pool_bytes / plan.large_bytes;
  std::int64_t least = 0;
  for (const GroupPlan& group : plan.groups) least += divide_up(group.tables, group.ratio);
  if (large_pages < least) {
    return fail(ErrorCode::kTooLarge,
                "one block of each layer group takes {} pages of {} bytes, {} bytes hold {}", least,
                plan.large_bytes, settings.pool_bytes, large_pages);
  }
  return std::unique_ptr<KvAllocator>(new KvAllocator(std::move(plan), settings, large_pages));
}

KvAllocator::KvAllocator(PagePlan plan, const KvSettings& settings, std::int64_t large_pages)
    : settings_(settings),
      store_(plan, large_pages, static_cast<int>(settings.plan.max_sequences),
             [this](int group, BlockNames names) { forget(group, names); }),
      prefixes_(static_cast<int>(plan.groups.size()), plan.block_tokens),
      missing_(plan.groups.size()),
      missing_counts_(plan.groups.size()),
      promised_(plan.groups.size()),
      slots_(at_index(settings.plan.max_sequences)) {
  for (int group = 0; group < static_cast<int>(plan.groups.size()); ++group) {
    policies_.push_back(make_layer_policy(plan.groups[at_index(group)]));
    plain_ = plain_ && plan.groups[at_index(group)].kind == CacheKind::kFull &&
             plan.groups[at_index(group)].stream == TokenStream::kText;
  }
  for (auto slot = static_cast<OwnerId>(settings.plan.max_sequences - 1); slot >= 0; --slot) {
    free_slots_.push_back(slot);
  }
}

bool KvAllocator::cacheable(int group) const {
  return settings_.prefix_caching && policy(group).cacheable() &&
         group_plan(group).stream != TokenStream::kBoth;
}

std::int64_t KvAllocator::peak_blocks(int group, const KvShape& shape, std::int64_t tokens,
                                      std::int64_t chunk) const {
  switch (group_plan(group).stream) {
    case TokenStream::kText:
      return policy(group).peak_blocks(tokens, chunk, shape.images);
    case TokenStream::kEncoder:
      return policy(group).peak_blocks(shape.encoder_tokens, shape.encoder_tokens, {});
    case TokenStream::kBoth:
      return policy(group).peak_blocks(shape.encoder_tokens + tokens, chunk, {});
  }
  return 0;
}

BlockRange KvAllocator::needed(int group, const KvSequence& sequence, std::int64_t end) const {
  const KvShape& shape = sequence.shape_;
  switch (group_plan(group).stream) {
    case TokenStream::kText:
      return policy(group).needed(sequence.computed_, end, shape.images);
    case TokenStream::kEncoder:
      return policy(group).needed(0, shape.encoder_tokens, {});
    case TokenStream::kBoth:
      return policy(group).needed(0, shape.encoder_tokens + end, {});
  }
  return {};
}

bool KvAllocator::fits(const KvShape& shape, std::int64_t tokens, std::int64_t chunk) const {
  std::vector<GroupDemand> demands;
  std::int64_t common = store_.pool().large_pages();
  for (int group = 0; group < groups(); ++group) {
    GroupDemand& demand = demands.emplace_back();
    demand.pages = peak_blocks(group, shape, tokens, chunk) * group_plan(group).tables;
    demand.ratio = group_plan(group).ratio;
    demand.reserved = divide_up(group_plan(group).reserved, demand.ratio);
    demand.largest = demand.available_large = store_.pool().cap_large(group);
    common -= demand.reserved;
  }
  return decide(demands, common, store_.pool().large_pages()).verdict == Admission::kNow;
}

std::int64_t KvAllocator::longest_sequence(std::int64_t chunk, std::int64_t limit) const {
  std::int64_t fitting = 0;
  std::int64_t failing = limit + 1;
  while (failing - fitting > 1) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    (fits({}, middle, chunk) ? fitting : failing) = middle;
  }
  return fitting;
}

// --- hits ---

// The group's blocks along the path of a hit.
std::vector<BlockId> KvAllocator::cached_blocks(int group, const PrefixHit& hit) const {
  const bool encoder = group_plan(group).stream == TokenStream::kEncoder;
  const std::vector<NodeId>& path = encoder ? hit.encoder_path : hit.path;
  const std::int64_t block_tokens = plan().block_tokens;
  const std::int64_t own_tokens = group_plan(group).block_tokens;
  std::vector<BlockId> blocks;
  if (own_tokens == 0) return blocks;
  const std::int64_t step = own_tokens / block_tokens;
  for (std::int64_t last = step - 1; last < static_cast<std::int64_t>(path.size()); last += step) {
    blocks.push_back(prefixes_.block(path[at_index(last)], group));
  }
  return blocks;
}

std::int64_t KvAllocator::group_hit(int group, const PrefixHit& hit, const KvShape& shape,
                                    std::int64_t limit) const {
  if (group_plan(group).kind == CacheKind::kVisionEmbedding) return limit;
  if (!cacheable(group)) return 0;
  const std::vector<BlockId> blocks = cached_blocks(group, hit);
  if (group_plan(group).stream == TokenStream::kEncoder) {
    const std::int64_t wanted = shape.encoder_tokens;
    return policy(group).longest_hit(wanted, blocks) == wanted ? limit : 0;
  }
  const std::int64_t length = policy(group).longest_hit(limit, blocks);
  // What is left of a bidirectional prefix looks back to its very beginning, in every layer.
  const bool lets_go = policy(group).kept(length).first > 0;
  return lets_go && length < shape.bidirectional_prefix ? 0 : length;
}

PrefixHit KvAllocator::match(const PrefixContent& content, const KvShape& shape,
                             std::int64_t limit) const {
  PrefixHit hit;
  if (!settings_.prefix_caching || limit <= 0) return hit;
  const std::int64_t block_tokens = plan().block_tokens;
  const auto length = static_cast<std::int64_t>(content.tokens.size());

  std::int64_t matched = 0;
  NodeId node = prefixes_.find_root(prefix_root(content));
  while (node != kNoNode && matched < limit) {
    const std::int64_t begin = matched;
    NodeId child = kNoNode;
    if (begin + block_tokens <= length) {
      child =
          prefixes_.find(node, block_content(content.tokens, content.images, begin, block_tokens));
    }
    if (child != kNoNode) {
      matched += block_tokens;
    } else {
      const std::int64_t last = std::min(begin + block_tokens - 1, length);
      std::int64_t end = last_image_end(content.images, begin, last);
      while (end > 0 && child == kNoNode) {
        child =
            prefixes_.find(node, block_content(content.tokens, content.images, begin, end - begin));
        if (child != kNoNode) matched = end;
        end = last_image_end(content.images, begin, end - 1);
      }
    }
    if (child != kNoNode) hit.path.push_back(child);
    node = matched == begin + block_tokens ? child : kNoNode;
  }
  matched = std::min(matched, limit);

  NodeId encoder = shape.encoder_tokens > 0 ? prefixes_.find_root(encoder_root(content)) : kNoNode;
  for (std::int64_t begin = 0; encoder != kNoNode && begin < shape.encoder_tokens;
       begin += block_tokens) {
    const std::int64_t count = std::min(block_tokens, shape.encoder_tokens - begin);
    encoder = prefixes_.find(encoder, block_content({}, content.encoder_images, begin, count));
    if (encoder != kNoNode) hit.encoder_path.push_back(encoder);
  }

  hit.tokens = common_hit(hit, shape, matched);
  return hit;
}

// The longest length up to `limit` that suits every group: each lowers it until none does.
std::int64_t KvAllocator::common_hit(const PrefixHit& hit, const KvShape& shape,
                                     std::int64_t limit) const {
  int agreed = 0;  // groups in a row
  for (int group = 0; agreed < groups() && limit > 0; group = (group + 1) % groups()) {
    const std::int64_t allowed = group_hit(group, hit, shape, limit);
    ++agreed;
    if (allowed == limit) continue;
    limit = allowed;
    agreed = 1;
  }
  return limit;
}

// Shares the blocks that the first `tokens` tokens will need, and remembers which block the next
// one begins as a copy of.
void KvAllocator::attach_hit(KvSequence& sequence, const PrefixContent& content,
                             const PrefixHit& hit, std::int64_t tokens) {
  const std::int64_t block_tokens = plan().block_tokens;
  sequence.computed_ = tokens;
  for (int group = 0; group < groups() && tokens > 0; ++group) {
    if (!cacheable(group)) continue;
    KvSequence::Group& to = sequence.groups_[at_index(group)];
    const bool encoder = group_plan(group).stream == TokenStream::kEncoder;
    const std::int64_t length = encoder ? sequence.shape_.encoder_tokens : tokens;
    const std::vector<BlockId> cached = cached_blocks(group, hit);
    const BlockRange kept = policy(group).kept(length);
    const std::int64_t own_tokens = group_plan(group).block_tokens;
    for (std::int64_t block = 0; block < kept.last; ++block) {
      const BlockId id = block < kept.first ? kNoBlock : cached[at_index(block)];
      if (id != kNoBlock) store_.share(group, id);
      if (!encoder && (block + 1) * own_tokens > tokens) {
        sequence.copy_sources_[at_index(group)] = id;
        break;
      }
      to.blocks.push_back(id);
      if (id != kNoBlock) ++to.held;
      const int first_table = plan().first_table(group);
      for (int table = 0; table < group_plan(group).tables; ++table) {
        sequence.tables_[at_index(first_table + table)].push_back(
            id == kNoBlock ? kNoPage : store_.page(group, id, table));
      }
    }
    to.first_live = kept.first;
  }
  if (!settings_.prefix_caching) return;
  const std::int64_t full_blocks = tokens / block_tokens;
  sequence.cursor_ =
      full_blocks > 0 ? hit.path[at_index(full_blocks - 1)] : prefixes_.root(prefix_root(content));
  sequence.cursor_tokens_ = full_blocks * block_tokens;
  prefixes_.pin(sequence.cursor_);
}

void KvAllocator::detach_hit(KvSequence& sequence) {
  for (int group = 0; group < groups(); ++group) {
    KvSequence::Group& from = sequence.groups_[at_index(group)];
    for (const BlockId block : from.blocks) {
      if (block != kNoBlock) store_.unshare(group, block);
    }
    if (BlockId& source = sequence.copy_sources_[at_index(group)]; source != kNoBlock) {
      store_.unshare(group, std::exchange(source, kNoBlock));
    }
    from.blocks.clear();
    from.held = 0;
    from.first_live = 0;
  }
  for (std::vector<PageId>& table : sequence.tables_) table.clear();
  if (sequence.cursor_ != kNoNode) prefixes_.unpin(std::exchange(sequence.cursor_, kNoNode));
  sequence.computed_ = 0;
}

// --- admission ---

void KvAllocator::open(KvSequence& sequence, const KvShape& shape, std::int64_t chunk) {
  CHECK(!sequence.admitted(), "slot {} is admitted already", sequence.slot_);
  sequence.slot_ = free_slots_.back();
  free_slots_.pop_back();
  slots_[at_index(sequence.slot_)] = &sequence;
  ++admitted_;
  sequence.shape_ = shape;
  sequence.groups_.assign(at_index(groups()), {});
  sequence.tables_.assign(at_index(plan().tables), {});
  sequence.copy_sources_.assign(at_index(groups()), kNoBlock);
  sequence.copies_.clear();
  for (int group = 0; group < groups(); ++group) {
    sequence.groups_[at_index(group)].peak = peak_blocks(group, shape, shape.prompt_tokens, chunk);
  }
}

void KvAllocator::close(KvSequence& sequence) {
  if (sequence.cursor_ != kNoNode) prefixes_.unpin(std::exchange(sequence.cursor_, kNoNode));
  store_.pool().end_owner(sequence.slot_);
  slots_[at_index(sequence.slot_)] = nullptr;
  free_slots_.push_back(sequence.slot_);
  --admitted_;
  sequence = KvSequence();
}

bool KvAllocator::prompt_has_room(const KvSequence& sequence) const {
  std::vector<GroupDemand> demands;
  for (int group = 0; group < groups(); ++group) {
    const KvSequence::Group& of = sequence.groups_[at_index(group)];
    const std::int64_t rest = std::max<std::int64_t>(0, of.peak - of.held);
    demands.push_back(store_.demand(group, rest + promised_[at_index(group)], -1));
  }
  std::int64_t available = store_.available_large();
  const std::int64_t total = store_.pool().large_pages();
  if (admitted_ > 1) {
    available -=
        static_cast<std::int64_t>(std::ceil(settings_.watermark * static_cast<double>(total)));
  }
  return decide(demands, available, total).verdict == Admission::kNow;
}

Admission KvAllocator::admit(KvSequence& sequence, const PrefixContent& content,
                             const KvShape& shape, const PrefixHit& hit, std::int64_t chunk) {
  if (!fits(shape, shape.prompt_tokens, chunk)) return Admission::kNever;
  if (free_slots_.empty()) return Admission::kLater;
  open(sequence, shape, chunk);
  // A hit can ask for more than it saves: the source of a copy stays beside the copy.
  const std::int64_t whole_blocks =
      common_hit(hit, shape, hit.tokens / plan().block_tokens * plan().block_tokens);
  std::int64_t tried = -1;
  for (const std::int64_t tokens : {hit.tokens, whole_blocks, std::int64_t{0}}) {
    if (tokens == tried) continue;
    tried = tokens;
    attach_hit(sequence, content, hit, tokens);
    if (prompt_has_room(sequence)) {
      update_promise(sequence);
      return Admission::kNow;
    }
    detach_hit(sequence);
    if (admitted_ > 1) break;  // others will end; until then the whole hit is worth the wait
  }
  close(sequence);
  return Admission::kLater;
}

void KvAllocator::update_promise(KvSequence& sequence) {
  const bool prefilling = sequence.computed_ < sequence.shape_.prompt_tokens;
  for (int group = 0; group < groups(); ++group) {
    KvSequence::Group& of = sequence.groups_[at_index(group)];
    const std::int64_t promise = prefilling ? std::max<std::int64_t>(0, of.peak - of.held) : 0;
    promised_[at_index(group)] += promise - of.promised;
    of.promised = promise;
  }
}

// --- growth ---

std::int64_t KvAllocator::chunk_end(std::int64_t begin, std::int64_t end) const {
  for (const auto& kind : policies_) end = kind->chunk_end(begin, end);
  return end;
}

bool KvAllocator::extend(KvSequence& sequence, std::int64_t end, std::int64_t reserve) {
  if (std::max(end, reserve) <= sequence.room_) return true;
  bool any = false;
  for (int group = 0; group < groups(); ++group) {
    BlockRange range = needed(group, sequence, end);
    if (group_plan(group).kind == CacheKind::kFull && reserve > end) {
      range.last = std::max(range.last, divide_up(reserve, plan().block_tokens));
    }
    const auto there = static_cast<std::int64_t>(sequence.groups_[at_index(group)].blocks.size());
    range.first = std::max(range.first, there);
    std::int64_t count = 0;
    for (std::int64_t block = range.first; block < range.last; ++block) {
      if (!policy(group).skips(block, sequence.shape_.images)) ++count;
    }
    missing_[at_index(group)] = range;
    missing_counts_[at_index(group)] = count;
    any = any || count > 0;
  }
  if (!any) return true;

  std::vector<GroupDemand> demands;
  for (int group = 0; group < groups(); ++group) {
    demands.push_back(store_.demand(group, missing_counts_[at_index(group)], sequence.slot_));
  }
  Quota quota = decide(demands, store_.available_large(), store_.pool().large_pages());
  if (quota.verdict != Admission::kNow) return false;
  for (int group = 0; group < groups(); ++group) {
    const BlockRange range = missing_[at_index(group)];
    KvSequence::Group& of = sequence.groups_[at_index(group)];
    while (static_cast<std::int64_t>(of.blocks.size()) < range.last) {
      const auto block = static_cast<std::int64_t>(of.blocks.size());
      const bool none = block < range.first || policy(group).skips(block, sequence.shape_.images);
      take_block(sequence, group, none ? nullptr : &quota.large[at_index(group)]);
    }
  }
  update_promise(sequence);
  if (plain_)
    sequence.room_ =
        static_cast<std::int64_t>(sequence.groups_.front().blocks.size()) * plan().block_tokens;
  return true;
}

// Appends a block to the group's list; without a quota, one that is not there.
void KvAllocator::take_block(KvSequence& sequence, int group, std::int64_t* quota) {
  KvSequence::Group& of = sequence.groups_[at_index(group)];
  const auto index = static_cast<std::int64_t>(of.blocks.size());
  const BlockId block = quota == nullptr ? kNoBlock : store_.take(group, sequence.slot_, quota);
  of.blocks.push_back(block);
  const int first_table = plan().first_table(group);
  for (int table = 0; table < group_plan(group).tables; ++table) {
    sequence.tables_[at_index(first_table + table)].push_back(
        block == kNoBlock ? kNoPage : store_.page(group, block, table));
  }
  if (block == kNoBlock) return;
  ++of.held;
  if (policy(group).continues_from_copy()) {
    const BlockId before = index > 0 ? of.blocks[at_index(index - 1)] : kNoBlock;
    if (before != kNoBlock) start_as_copy(sequence, group, before, block);
  } else if (sequence.copy_sources_[at_index(group)] != kNoBlock &&
             index == sequence.computed_ / group_plan(group).block_tokens) {
    start_as_copy(sequence, group, sequence.copy_sources_[at_index(group)], block);
  }
}

void KvAllocator::start_as_copy(KvSequence& sequence, int group, BlockId from, BlockId to) {
  for (int table = 0; table < group_plan(group).tables; ++table) {
    sequence.copies_.push_back(
        {group, table, store_.page(group, from, table), store_.page(group, to, table)});
  }
}

void KvAllocator::take_copies(KvSequence& sequence, std::vector<KvCopy>& out) {
  out.insert(out.end(), sequence.copies_.begin(), sequence.copies_.end());
  sequence.copies_.clear();
}

void KvAllocator::drop_block(KvSequence& sequence, int group, std::int64_t block, bool early) {
  KvSequence::Group& of = sequence.groups_[at_index(group)];
  BlockId& id = of.blocks[at_index(block)];
  if (id == kNoBlock) return;
  store_.drop(group, id, {early, turn_, (block + 1) * group_plan(group).block_tokens});
  id = kNoBlock;
  --of.held;
  const int first_table = plan().first_table(group);
  for (int table = 0; table < group_plan(group).tables; ++table) {
    sequence.tables_[at_index(first_table + table)][at_index(block)] = kNoPage;
  }
}

void KvAllocator::free_skipped(KvSequence& sequence) {
  if (plain_) return;
  bool any = false;
  for (int group = 0; group < groups(); ++group) {
    if (group_plan(group).stream != TokenStream::kText) continue;
    KvSequence::Group& of = sequence.groups_[at_index(group)];
    const std::int64_t live = std::min(policy(group).first_live(sequence.computed_),
                                       static_cast<std::int64_t>(of.blocks.size()));
    for (; of.first_live < live; ++of.first_live) {
      if (!any) ++turn_;
      any = true;
      drop_block(sequence, group, of.first_live, true);
    }
  }
  if (!any) return;
  ++releases_;
  update_promise(sequence);
}

void KvAllocator::give_back(KvSequence& sequence) {
  bool any = false;
  sequence.room_ = 0;
  for (int group = 0; group < groups(); ++group) {
    const TokenStream stream = group_plan(group).stream;
    if (stream == TokenStream::kEncoder) continue;
    CHECK(group_plan(group).kind != CacheKind::kState, "group {} keeps a state", group);
    KvSequence::Group& of = sequence.groups_[at_index(group)];
    const std::int64_t before = stream == TokenStream::kBoth ? sequence.shape_.encoder_tokens : 0;
    const std::int64_t kept =
        divide_up(before + sequence.computed_, group_plan(group).block_tokens);
    const int first_table = plan().first_table(group);
    while (static_cast<std::int64_t>(of.blocks.size()) > kept) {
      if (!any) ++turn_;
      any = true;
      drop_block(sequence, group, static_cast<std::int64_t>(of.blocks.size()) - 1, false);
      of.blocks.pop_back();
      for (int table = 0; table < group_plan(group).tables; ++table)
        sequence.tables_[at_index(first_table + table)].pop_back();
    }
    of.first_live = std::min(of.first_live, static_cast<std::int64_t>(of.blocks.size()));
  }
  if (!any) return;
  ++releases_;
  update_promise(sequence);
}

void KvAllocator::release(KvSequence& sequence) {
  CHECK(sequence.admitted(), "a sequence that is not admitted is released");
  ++turn_;
  ++releases_;
  for (int group = 0; group < groups(); ++group) {
    KvSequence::Group& of = sequence.groups_[at_index(group)];
    for (auto block = static_cast<std::int64_t>(of.blocks.size()) - 1; block >= 0; --block) {
      drop_block(sequence, group, block, false);
    }
    if (BlockId& source = sequence.copy_sources_[at_index(group)]; source != kNoBlock) {
      store_.unshare(group, std::exchange(source, kNoBlock));
    }
    promised_[at_index(group)] -= of.promised;
  }
  close(sequence);
}

double KvAllocator::usage() const {
  std::int64_t live = 0;
  for (int group = 0; group < groups(); ++group) {
    live +=
        (store_.pool().taken(group) - store_.pages_cached(group)) * group_plan(group).page_bytes;
  }
  const std::int64_t total = store_.pool().large_pages() * plan().large_bytes;
  return static_cast<double>(live) / static_cast<double>(total);
}

}  // namespace saccade
