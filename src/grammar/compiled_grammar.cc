#include "grammar/compiled_grammar.h"

#include <utility>

namespace saccade::grammar {

Result<std::shared_ptr<const CompiledGrammar>> CompiledGrammar::create(
    Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary) {
  TRY(Automaton automaton, Automaton::compile(std::move(grammar)));
  return std::shared_ptr<const CompiledGrammar>(
      new CompiledGrammar(std::move(automaton), std::move(vocabulary)));
}

}  // namespace saccade::grammar
