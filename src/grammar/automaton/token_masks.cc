#include "grammar/automaton/token_masks.h"

#include <algorithm>
#include <numeric>

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxMaskBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxLapBytes = std::size_t{32} << 20;

std::uint64_t key_of(StateId state, std::uint32_t laps) {
  return (std::uint64_t{state} << 32) | laps;
}

}  // namespace

TokenMasks::TokenMasks(const Automaton& automaton, const Vocabulary& vocabulary,
                       std::size_t max_bytes)
    : automaton_(automaton), vocabulary_(vocabulary), max_bytes_(max_bytes) {}

std::size_t TokenMasks::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// Laps beyond which a token cannot tell the difference are taken for one another.
std::uint32_t TokenMasks::canonical_laps(const StackTop& top) const {
  const Frame& frame = automaton_.frame(automaton_.state(top.state).frame);
  if (!frame.counted) return 0;
  const auto longest = static_cast<std::uint32_t>(vocabulary_.longest());
  const bool far_from_max = frame.max == kUnbounded || frame.max - top.laps > longest;
  if (far_from_max && top.laps >= frame.min) return frame.min;
  if (far_from_max && frame.min - top.laps > longest && frame.min > 0) return 0;
  return top.laps;
}

std::shared_ptr<const StateMask> TokenMasks::find(const StackTop& top) {
  const std::uint64_t key = key_of(top.state, canonical_laps(top));
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = masks_.find(key); known != masks_.end()) return known->second;
  }
  std::shared_ptr<const StateMask> made = make({top.state, canonical_laps(top), top.below});
  const std::lock_guard lock(mutex_);
  if (bytes_ + made->bytes() > max_bytes_) {
    masks_.clear();
    bytes_ = 0;
  }
  if (masks_.try_emplace(key, made).second) bytes_ += made->bytes();
  return made;
}

std::shared_ptr<const StateMask> TokenMasks::make(const StackTop& top) {
  const std::lock_guard lock(making_);
  const Frame& frame = automaton_.frame(automaton_.state(top.state).frame);
  if (frame.counted && !frame.has_calls) {
    const LapTokens& tokens = lap_tokens(top.state);
    if (!tokens.ambiguous) {
      return make_by_laps(tokens, frame.max == kUnbounded ? kUnbounded : frame.max - top.laps);
    }
  }
  return make_plain(top.state, top.laps);
}

void TokenMasks::set_tokens(std::vector<TokenId>&& tokens, StateMask& mask) const {
  if (tokens.size() * 2 <= vocabulary_.words()) {
    tokens.shrink_to_fit();
    mask.few = std::move(tokens);
    return;
  }
  mask.words.assign(vocabulary_.words(), 0);
  for (const TokenId token : tokens) {
    mask.words[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
  }
}

std::shared_ptr<const StateMask> TokenMasks::make_plain(StateId state, std::uint32_t laps) {
  if (!sets_ || sets_->bytes() > kMaxMaskBytes) sets_ = std::make_unique<StackSets>(automaton_);
  auto mask = std::make_shared<StateMask>();
  std::vector<TokenId> tokens;
  std::vector<SetId> path;
  const auto nodes = vocabulary_.nodes();
  const auto end = static_cast<std::uint32_t>(nodes.size());
  sets_->begin_walk();
  const SetId from = sets_->single({state, laps, StackSets::kBottom});
  mask->complete =
      walk_trie(vocabulary_, *sets_, from, {0, end}, path, [&](std::uint32_t node, SetId at) {
        const auto here = vocabulary_.tokens_at(node);
        tokens.insert(tokens.end(), here.begin(), here.end());
        if (nodes[node].end > node + 1 && sets_->can_end(at)) mask->exits.push_back({node, 0});
        mask->deepest = std::max(mask->deepest, sets_->demand(at));
      });
  mask->deepest = std::max(mask->deepest, sets_->demand(from));
  set_tokens(std::move(tokens), *mask);
  return mask;
}

const TokenMasks::LapTokens& TokenMasks::lap_tokens(StateId state) {
  if (const auto known = lap_tokens_.find(state); known != lap_tokens_.end()) return known->second;
  if (lap_bytes_ > kMaxLapBytes) {
    lap_tokens_.clear();
    lap_bytes_ = 0;
  }
  LapTokens& made = lap_tokens_[state];
  StackSets sets(automaton_, automaton_.state(state).frame);
  sets.begin_walk();
  std::vector<std::pair<std::uint32_t, TokenId>> found;
  std::vector<SetId> path;
  const auto nodes = vocabulary_.nodes();
  made.complete = walk_trie(vocabulary_, sets, sets.single({state, 0, StackSets::kBottom}),
                            {0, static_cast<std::uint32_t>(nodes.size())}, path,
                            [&](std::uint32_t node, SetId at) {
                              const auto tops = sets.tops(at);
                              const std::uint32_t laps = tops[0].laps + 1;
                              bool exits = false;
                              for (const StackTop& top : tops) {
                                made.ambiguous |= top.laps + 1 != laps;
                                exits |= automaton_.state(top.state).final;
                              }
                              for (const TokenId token : vocabulary_.tokens_at(node))
                                found.emplace_back(laps, token);
                              if (exits && nodes[node].end > node + 1)
                                made.exits.push_back({node, laps});
                            });
  std::uint32_t most = 0;
  for (const auto& [laps, token] : found) most = std::max(most, laps);
  made.begin.assign(found.empty() ? 1 : std::size_t{most} + 2, 0);
  for (const auto& [laps, token] : found) ++made.begin[std::size_t{laps} + 1];
  std::partial_sum(made.begin.begin(), made.begin.end(), made.begin.begin());
  made.tokens.resize(found.size());
  std::vector<std::uint32_t> next = made.begin;
  for (const auto& [laps, token] : found) made.tokens[next[laps]++] = token;
  lap_bytes_ += made.tokens.size() * sizeof(TokenId);
  return made;
}

std::shared_ptr<const StateMask> TokenMasks::make_by_laps(const LapTokens& from,
                                                          std::uint32_t laps_left) {
  auto mask = std::make_shared<StateMask>();
  mask->by_laps = true;
  mask->deepest = 1;
  mask->complete = from.complete;
  mask->exits = from.exits;
  const std::size_t past = std::min<std::size_t>(std::size_t{laps_left} + 1, from.begin.size() - 1);
  set_tokens({from.tokens.begin(), from.tokens.begin() + from.begin[past]}, *mask);
  return mask;
}

}  // namespace saccade::grammar
