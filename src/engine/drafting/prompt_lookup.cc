#include "engine/drafting/prompt_lookup.h"

#include <algorithm>

#include "base/hash.h"

namespace saccade {
namespace {

constexpr std::size_t kFirstSlots = 64;

// Calls `with(length, hash)` for each n-gram of these lengths that ends at `end`.
template <typename With>
void for_each_ending(std::span<const TokenId> tokens, std::int64_t end, std::int64_t shortest,
                     std::int64_t longest, With&& with) {
  std::uint64_t hash = 17;
  for (std::int64_t length = 1; length <= std::min(longest, end); ++length) {
    hash = hash_combine(hash,
                        static_cast<std::uint64_t>(tokens[static_cast<std::size_t>(end - length)]));
    if (length >= shortest) with(length, static_cast<std::uint32_t>(hash >> 32));
  }
}

}  // namespace

void PromptLookup::read(std::span<const TokenId> tokens) {
  // The last token's n-grams are what is looked for: they wait until a token has followed them.
  const std::int64_t last = static_cast<std::int64_t>(tokens.size()) - 1;
  for (; read_ < last; ++read_) {
    const std::int64_t end = read_ + 1;
    for_each_ending(tokens, end, shortest_, longest_, [&](std::int64_t, std::uint32_t hash) {
      insert(hash, static_cast<std::int32_t>(end));
    });
  }
}

bool PromptLookup::propose(std::span<const TokenId> tokens, std::int64_t most,
                           std::vector<TokenId>& draft) const {
  draft.clear();
  const auto known = static_cast<std::int64_t>(tokens.size());
  std::int64_t from = 0;
  for_each_ending(tokens, known, shortest_, longest_, [&](std::int64_t length, std::uint32_t hash) {
    const std::int64_t end = find(hash);
    if (end < length) return;
    const auto size = static_cast<std::size_t>(length);
    const auto there = tokens.subspan(static_cast<std::size_t>(end - length), size);
    if (std::ranges::equal(there, tokens.last(size))) from = end;
  });
  if (from == 0) return false;
  const std::int64_t period = known - from;
  for (std::int64_t i = 0; i < most; ++i)
    draft.push_back(tokens[static_cast<std::size_t>(from + i % period)]);
  return most > 0;
}

std::size_t PromptLookup::slot_of(std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].end != 0 && slots_[at].hash != hash) at = (at + 1) & mask;
  return at;
}

void PromptLookup::insert(std::uint32_t hash, std::int32_t end) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  const std::size_t at = slot_of(hash);
  if (slots_[at].end == 0) ++used_;
  slots_[at] = {hash, end};
}

std::int32_t PromptLookup::find(std::uint32_t hash) const {
  return slots_.empty() ? 0 : slots_[slot_of(hash)].end;
}

void PromptLookup::grow() {
  std::vector<Slot> old(std::max(kFirstSlots, 2 * slots_.size()));
  old.swap(slots_);
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.end != 0) insert(slot.hash, slot.end);
  }
}

}  // namespace saccade
