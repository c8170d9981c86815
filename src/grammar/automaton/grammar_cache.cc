#include "grammar/automaton/grammar_cache.h"

#include <utility>

namespace saccade::grammar {

Result<std::shared_ptr<const CompiledGrammar>> GrammarCache::find(const GrammarSpec& spec) {
  const Digest key = spec.digest();
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_key_.find(key); known != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, known->second);
      return entries_.front().grammar;
    }
  }
  // Two threads may compile the same; the first to be done is kept.
  TRY(Grammar grammar, parse_spec(spec));
  TRY(auto compiled, CompiledGrammar::create(std::move(grammar), vocabulary_));
  const std::lock_guard lock(mutex_);
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second->grammar;
  entries_.push_front({key, compiled});
  by_key_.emplace(key, entries_.begin());
  while (entries_.size() > 1 && bytes_locked() > max_bytes_) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return compiled;
}

std::size_t GrammarCache::bytes_locked() const {
  std::size_t total = 0;
  for (const Entry& entry : entries_) total += entry.grammar->bytes();
  return total;
}

std::size_t GrammarCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t GrammarCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_locked();
}

}  // namespace saccade::grammar
