// Compiled grammars by what they were compiled from, so that a schema sent with every request is
// compiled once.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"
#include "base/result.h"
#include "grammar/automaton/compiled_grammar.h"
#include "grammar/automaton/vocabulary.h"
#include "grammar/grammar_spec.h"

namespace saccade::grammar {

// Any thread. Least recently used go first; a grammar in use lives on with its users.
class GrammarCache {
 public:
  GrammarCache(std::shared_ptr<const Vocabulary> vocabulary, std::size_t max_bytes)
      : vocabulary_(std::move(vocabulary)), max_bytes_(max_bytes) {}

  // Compiles on the calling thread when it is not there; errors (parse_spec's,
  // Automaton::compile's) are not kept.
  Result<std::shared_ptr<const CompiledGrammar>> find(const GrammarSpec& spec);

  std::size_t size() const;
  std::size_t bytes() const;  // masks found since included

 private:
  struct Entry {
    Digest key{};
    std::shared_ptr<const CompiledGrammar> grammar;
  };
  std::size_t bytes_locked() const;

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // guarded; latest first
  std::unordered_map<Digest, std::list<Entry>::iterator, DigestHash> by_key_;  // guarded
};

}  // namespace saccade::grammar
