// A grammar made ready for one vocabulary: the automaton and the masks found so far.
#pragma once

#include <cstddef>
#include <memory>

#include "grammar/automaton/automaton.h"
#include "grammar/automaton/token_masks.h"
#include "grammar/automaton/vocabulary.h"

namespace saccade::grammar {

// Any thread.
class CompiledGrammar {
 public:
  static constexpr std::size_t kMaxMaskBytes = std::size_t{64} << 20;

  // Errors: Automaton::compile's.
  static Result<std::shared_ptr<const CompiledGrammar>> create(
      Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary);

  const Automaton& automaton() const { return automaton_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  bool bounds_blanks() const { return bounds_blanks_; }
  TokenMasks& masks() const { return masks_; }  // a cache: what it answers does not depend on it
  std::size_t bytes() const { return automaton_bytes_ + masks_.bytes(); }

 private:
  CompiledGrammar(Automaton automaton, bool bounds_blanks,
                  std::shared_ptr<const Vocabulary> vocabulary)
      : bounds_blanks_(bounds_blanks),
        automaton_(std::move(automaton)),
        automaton_bytes_(automaton_.bytes()),
        vocabulary_(std::move(vocabulary)),
        masks_(automaton_, *vocabulary_, kMaxMaskBytes) {}

  const bool bounds_blanks_;
  const Automaton automaton_;
  const std::size_t automaton_bytes_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  mutable TokenMasks masks_;
};

}  // namespace saccade::grammar
