#include "grammar/matcher.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace saccade::grammar {
namespace {

constexpr std::size_t kMaxSetBytes = std::size_t{2} << 20;
constexpr std::size_t kMaxForced = 4096;

void set_bit(std::span<std::uint32_t> words, TokenId token) {
  words[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const CompiledGrammar> grammar)
    : grammar_(std::move(grammar)), sets_(grammar_->automaton()), history_{sets_.start()} {}

bool Matcher::fill_mask(std::span<std::uint32_t> words) {
  const Vocabulary& vocabulary = grammar_->vocabulary();
  CHECK(words.size() == vocabulary.words(), "{} words for {} tokens", words.size(),
        vocabulary.size());
  std::fill(words.begin(), words.end(), 0U);
  if (ended_) return false;
  if (sets_.bytes() > kMaxSetBytes) sets_.collect(history_);
  // What is on top, and what comes on top when that ends here.
  tops_.assign(sets_.tops(history_.back()).begin(), sets_.tops(history_.back()).end());
  for (std::size_t i = 0; i < tops_.size(); ++i) {
    const StackTop top = tops_[i];
    if (!sets_.may_end(top)) continue;
    for (const StackTop& below : sets_.tops(top.below)) {
      if (std::find(tops_.begin(), tops_.end(), below) == tops_.end()) tops_.push_back(below);
    }
  }
  // So deep down, whether a token passes depends on how much deeper it would go.
  const bool near_limit =
      sets_.depth(history_.back()) + vocabulary.longest() + 1 >= StackSets::kMaxDepth;
  if (near_limit) {
    walk_trie(vocabulary, sets_, history_.back(), 0,
              static_cast<std::uint32_t>(vocabulary.nodes().size()), 0, path_,
              [&](std::uint32_t node, SetId) {
                for (const TokenId token : vocabulary.tokens_at(node)) set_bit(words, token);
              });
  }
  for (const StackTop& top : tops_) {
    if (top.state == StackSets::kBottomState) {
      for (const TokenId token : vocabulary.end_tokens()) set_bit(words, token);
    } else if (!near_limit) {
      add_tokens(top, words);
    }
  }
  return std::any_of(words.begin(), words.end(), [](std::uint32_t word) { return word != 0; });
}

void Matcher::add_tokens(const StackTop& top, std::span<std::uint32_t> words) {
  const Vocabulary& vocabulary = grammar_->vocabulary();
  const std::shared_ptr<const StateMask> mask = grammar_->masks().find(top);
  for (std::size_t i = 0; i < mask->words.size(); ++i) words[i] |= mask->words[i];
  for (const TokenId token : mask->few) set_bit(words, token);
  if (mask->exits.empty() || top.below == StackSets::kBottom) return;
  const Frame& frame = grammar_->automaton().frame(grammar_->automaton().state(top.state).frame);
  const auto nodes = vocabulary.nodes();
  for (const StateMask::Exit& exit : mask->exits) {
    if (mask->by_laps) {
      const std::uint64_t laps = std::uint64_t{top.laps} + exit.laps;
      if (laps < frame.min || (frame.max != kUnbounded && laps > frame.max)) continue;
    }
    walk_trie(vocabulary, sets_, top.below, exit.node + 1, nodes[exit.node].end,
              nodes[exit.node].depth, path_, [&](std::uint32_t node, SetId) {
                for (const TokenId token : vocabulary.tokens_at(node)) set_bit(words, token);
              });
  }
}

void Matcher::advance(SetId to) {
  history_.push_back(to);
  if (history_.size() > kMaxRollback + 1) history_.erase(history_.begin());
  if (sets_.bytes() > kMaxSetBytes) sets_.collect(history_);
}

bool Matcher::accept(TokenId token) {
  if (ended_) return false;
  if (grammar_->vocabulary().is_end(token)) {
    if (!sets_.can_end(history_.back())) return false;
    ended_ = true;
    advance(history_.back());
    return true;
  }
  const std::string_view bytes = grammar_->vocabulary().piece(token);
  return !bytes.empty() && accept_bytes(bytes);
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (ended_) return false;
  SetId at = history_.back();
  for (const char byte : bytes) {
    at = sets_.step(at, static_cast<std::uint8_t>(byte));
    if (at == StackSets::kDead) return false;
  }
  advance(at);
  return true;
}

bool Matcher::rollback(std::size_t count) {
  if (count >= history_.size()) return false;
  if (count == 0) return true;
  history_.resize(history_.size() - count);
  ended_ = false;
  return true;
}

std::string Matcher::forced_text() {
  std::string text;
  std::array<bool, 256> next{};
  for (SetId at = history_.back(); text.size() < kMaxForced && !ended_;) {
    if (sets_.can_end(at)) break;
    sets_.next_bytes(at, next);
    const auto first = std::find(next.begin(), next.end(), true);
    if (first == next.end() || std::find(first + 1, next.end(), true) != next.end()) break;
    text += static_cast<char>(first - next.begin());
    at = sets_.step(at, static_cast<std::uint8_t>(text.back()));
  }
  return text;
}

}  // namespace saccade::grammar
