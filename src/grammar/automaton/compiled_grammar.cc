#include "grammar/automaton/compiled_grammar.h"

#include <utility>

namespace saccade::grammar {

Result<std::shared_ptr<const CompiledGrammar>> CompiledGrammar::create(
    Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary) {
  const bool bounds_blanks = grammar.bounds_blanks();
  TRY(Automaton automaton, Automaton::compile(std::move(grammar)));
  return std::shared_ptr<const CompiledGrammar>(
      new CompiledGrammar(std::move(automaton), bounds_blanks, std::move(vocabulary)));
}

}  // namespace saccade::grammar
