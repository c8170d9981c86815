#include "grammar/automaton/matcher.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxSetBytes = std::size_t{2} << 20;
// Each top's mask takes a walk when it is met for the first time; more tops are walked together.
constexpr std::size_t kMaxMasks = 16;
constexpr std::size_t kBytesAWalk = 1024;  // as long as a token may be

void set_bit(std::span<std::uint32_t> words, TokenId token) {
  words[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const CompiledGrammar> grammar)
    : grammar_(std::move(grammar)),
      sets_(grammar_->automaton()),
      history_{sets_.start()},
      blanks_(1) {}

bool Matcher::fill_mask(std::span<std::uint32_t> words) {
  const Vocabulary& vocabulary = grammar_->vocabulary();
  CHECK(words.size() == vocabulary.words(), "{} words for {} tokens", words.size(),
        vocabulary.size());
  std::fill(words.begin(), words.end(), 0U);
  if (ended_ || exhausted_) return false;
  if (sets_.bytes() > kMaxSetBytes) sets_.collect(history_);
  sets_.begin_walk();
  // What is on top, and what comes on top when that ends here.
  tops_.assign(sets_.tops(history_.back()).begin(), sets_.tops(history_.back()).end());
  for (std::size_t i = 0; i < tops_.size() && tops_.size() <= kMaxMasks; ++i) {
    const StackTop top = tops_[i];
    if (!sets_.may_end_without_bytes(top)) continue;
    for (const StackTop& below : sets_.tops(top.below)) {
      if (std::find(tops_.begin(), tops_.end(), below) == tops_.end()) tops_.push_back(below);
    }
  }
  if (tops_.size() > kMaxMasks) {
    add_tokens_one_by_one(words);
    return finish_mask(words);
  }
  std::uint32_t deepest = 0;
  for (const StackTop& top : tops_) {
    if (top.state == StackSets::kBottomState) {
      for (const TokenId token : vocabulary.end_tokens()) set_bit(words, token);
    } else {
      deepest = std::max(deepest, add_tokens(top, words));
    }
  }
  // So deep down what passes depends on all that lies below, of which the masks know nothing.
  if (deepest > StackSets::kMaxDepth) add_tokens_one_by_one(words);
  return finish_mask(words);
}

Matcher::Blanks Matcher::blanks_after(Blanks before, std::string_view bytes) {
  const std::size_t end = bytes.find_last_not_of(" \t\r\n");
  Blanks after = end == std::string_view::npos ? before : Blanks();
  const std::string_view tail = end == std::string_view::npos ? bytes : bytes.substr(end + 1);
  after.bytes += tail.size();
  after.line_ends += static_cast<std::size_t>(std::count(tail.begin(), tail.end(), '\n'));
  return after;
}

bool Matcher::between_tokens() {
  if (!grammar_->bounds_blanks()) return false;
  // Where white space leads back to where it came from, and other text does not: in a string there
  // are no line ends, and free text has letters too.
  sets_.begin_walk();
  const SetId at = sets_.step(history_.back(), ' ');
  return at != StackSets::kDead && sets_.step(at, ' ') == at && sets_.step(at, '\n') == at &&
         sets_.step(at, 'a') != at;
}

bool Matcher::too_blank(TokenId token) const {
  const Blanks after = blanks_after(blanks_.back(), grammar_->vocabulary().piece(token));
  return after.bytes > kMaxBlanks || after.line_ends > kMaxLineEnds;
}

void Matcher::drop_blanks(std::span<std::uint32_t> words) {
  if (!between_tokens()) return;
  std::vector<TokenId> dropped;
  for (const TokenId token : grammar_->vocabulary().blank_tokens()) {
    std::uint32_t& word = words[static_cast<std::size_t>(token) / 32];
    const std::uint32_t bit = 1U << (token % 32);
    if ((word & bit) == 0 || !too_blank(token)) continue;
    word &= ~bit;
    dropped.push_back(token);
  }
  const bool some =
      std::any_of(words.begin(), words.end(), [](std::uint32_t word) { return word != 0; });
  // A vocabulary may have nothing else that leads on.
  if (!some) {
    for (const TokenId token : dropped) set_bit(words, token);
  }
}

bool Matcher::finish_mask(std::span<std::uint32_t> words) {
  drop_blanks(words);
  if (exhausted_) std::fill(words.begin(), words.end(), 0U);
  return std::any_of(words.begin(), words.end(), [](std::uint32_t word) { return word != 0; });
}

void Matcher::add_tokens_one_by_one(std::span<std::uint32_t> words) {
  const Vocabulary& vocabulary = grammar_->vocabulary();
  std::fill(words.begin(), words.end(), 0U);
  if (sets_.can_end(history_.back())) {
    for (const TokenId token : vocabulary.end_tokens()) set_bit(words, token);
  }
  const auto end = static_cast<std::uint32_t>(vocabulary.nodes().size());
  exhausted_ |= !walk_trie(vocabulary, sets_, history_.back(), {0, end}, path_,
                           [&](std::uint32_t node, SetId) {
                             for (const TokenId token : vocabulary.tokens_at(node))
                               set_bit(words, token);
                           });
}

std::uint32_t Matcher::add_tokens(const StackTop& top, std::span<std::uint32_t> words) {
  const std::shared_ptr<const StateMask> mask = grammar_->masks().find(top);
  for (std::size_t i = 0; i < mask->words.size(); ++i) words[i] |= mask->words[i];
  for (const TokenId token : mask->few) set_bit(words, token);
  exhausted_ |= !mask->complete;
  std::uint32_t deepest = sets_.depth(history_.back());
  if (mask->exits.empty() || top.below == StackSets::kBottom) return deepest + mask->deepest;
  // Parses that meet are as deep as the deepest of them.
  return std::max(deepest, add_past_exits(top, *mask, words)) + mask->deepest;
}

std::uint32_t Matcher::add_past_exits(const StackTop& top, const StateMask& mask,
                                      std::span<std::uint32_t> words) {
  const Vocabulary& vocabulary = grammar_->vocabulary();
  const Frame& frame = grammar_->automaton().frame(grammar_->automaton().state(top.state).frame);
  const auto nodes = vocabulary.nodes();
  std::uint32_t deepest = 0;
  const auto counts = [&](const StateMask::Exit& exit) {
    const std::uint64_t laps = std::uint64_t{top.laps} + exit.laps;
    return !mask.by_laps || (laps >= frame.min && (frame.max == kUnbounded || laps <= frame.max));
  };
  const auto take = [&](std::uint32_t node, SetId at) {
    deepest = std::max(deepest, sets_.demand(at));
    for (const TokenId token : vocabulary.tokens_at(node)) set_bit(words, token);
  };
  const auto walk_below = [&](std::uint32_t node, SetId from) {
    exhausted_ |= !walk_trie(vocabulary, sets_, from,
                             {node + 1, nodes[node].end, nodes[node].depth}, path_, take);
  };

  // Few bytes lead on, mostly, and fewer edges of the trie have one of them than there are exits.
  std::array<bool, 256> next{};
  sets_.next_bytes(top.below, next);
  std::size_t links = 0;
  for (std::size_t byte = 0; byte < next.size(); ++byte)
    links += next[byte] ? vocabulary.links(static_cast<std::uint8_t>(byte)).size() : 0;
  if (links > mask.exits.size()) {
    for (const StateMask::Exit& exit : mask.exits) {
      if (counts(exit)) walk_below(exit.node, top.below);
      if (exhausted_) break;
    }
    return deepest;
  }
  for (std::size_t byte = 0; byte < next.size() && !exhausted_; ++byte) {
    if (!next[byte]) continue;
    const SetId at = sets_.step(top.below, static_cast<std::uint8_t>(byte));
    if (at == StackSets::kDead) continue;
    auto exit = mask.exits.begin();
    for (const auto& [parent, node] : vocabulary.links(static_cast<std::uint8_t>(byte))) {
      while (exit != mask.exits.end() && exit->node < parent) ++exit;
      if (exit == mask.exits.end()) break;
      if (exit->node != parent || !counts(*exit)) continue;
      exhausted_ |= !sets_.charge(1);
      take(node, at);
      walk_below(node, at);
      if (exhausted_) break;
    }
  }
  return deepest;
}

void Matcher::advance(SetId to, std::string_view bytes) {
  history_.push_back(to);
  blanks_.push_back(blanks_after(blanks_.back(), bytes));
  if (history_.size() > kMaxRollback + 1) {
    history_.erase(history_.begin());
    blanks_.erase(blanks_.begin());
  }
  if (sets_.bytes() > kMaxSetBytes) sets_.collect(history_);
}

bool Matcher::accept(TokenId token) {
  if (ended_) return false;
  if (grammar_->vocabulary().is_end(token)) {
    if (!sets_.can_end(history_.back())) return false;
    ended_ = true;
    advance(history_.back(), {});
    return true;
  }
  const std::string_view bytes = grammar_->vocabulary().piece(token);
  return !bytes.empty() && accept_bytes(bytes);
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (ended_ || exhausted_) return false;
  // `at` is kept at the end of the history, so that collecting renumbers it too.
  history_.push_back(history_.back());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % kBytesAWalk == 0) sets_.begin_walk();
    const SetId at = sets_.step(history_.back(), static_cast<std::uint8_t>(bytes[i]));
    exhausted_ |= !sets_.within_limits();
    if (at == StackSets::kDead || exhausted_) {
      history_.pop_back();
      return false;
    }
    history_.back() = at;
    if (sets_.bytes() > kMaxSetBytes) sets_.collect(history_);
  }
  const SetId at = history_.back();
  history_.pop_back();
  advance(at, bytes);
  return true;
}

bool Matcher::rollback(std::size_t count) {
  if (count >= history_.size()) return false;
  if (count == 0) return true;
  history_.resize(history_.size() - count);
  blanks_.resize(history_.size());
  ended_ = false;
  return true;
}

}  // namespace saccade::grammar
