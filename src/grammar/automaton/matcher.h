// One sequence being held to a grammar: which tokens may come next, and what has come.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/automaton/compiled_grammar.h"
#include "grammar/automaton/stack_sets.h"

namespace saccade::grammar {

// One thread at a time.
class Matcher {
 public:
  static constexpr std::size_t kMaxRollback = 64;  // tokens
  // White space in a row between the tokens of JSON, where the grammar bounds it: room for an
  // indent of some depth behind an empty line.
  static constexpr std::size_t kMaxBlanks = 32;
  static constexpr std::size_t kMaxLineEnds = 2;

  explicit Matcher(std::shared_ptr<const CompiledGrammar> grammar);

  // Sets bit t % 32 of word t / 32 exactly when token t may come next, an end token when the text
  // may end here. `words`: Vocabulary::words() of them. False when no token may come, or
  // exhausted(). Where an ambiguous grammar has made the matcher give parses up (gave_up()), a bit
  // may be set for a token that accept() then refuses.
  bool fill_mask(std::span<std::uint32_t> words);

  // Takes the token; false, and nothing has changed, when it may not come here.
  bool accept(TokenId token);
  // Takes bytes as one token would.
  bool accept_bytes(std::string_view bytes);
  // Takes back the last `count` that were accepted; false when so many are not remembered.
  bool rollback(std::size_t count);

  bool can_end() { return ended_ || sets_.can_end(history_.back()); }
  bool ended() const { return ended_; }  // an end token was accepted

  bool gave_up() const { return sets_.gave_up(); }
  // A mask or a token would have taken more than StackSets' limits of a walk: the text can be
  // followed no further, and the sequence should end in an error.
  bool exhausted() const { return exhausted_; }
  const CompiledGrammar& grammar() const { return *grammar_; }
  std::size_t bytes() const { return sets_.bytes(); }

 private:
  // What the stacks under `top` let pass. How many frames must be let lie on one another for that
  // to be all.
  std::uint32_t add_tokens(const StackTop& top, std::span<std::uint32_t> words);
  // Of the tokens that leave the top's frame within them: what the rest of each has to say.
  std::uint32_t add_past_exits(const StackTop& top, const StateMask& mask,
                               std::span<std::uint32_t> words);
  void add_tokens_one_by_one(std::span<std::uint32_t> words);
  bool finish_mask(std::span<std::uint32_t> words);
  void advance(SetId to, std::string_view bytes);
  // White space at the text's end.
  struct Blanks {
    std::size_t bytes = 0;
    std::size_t line_ends = 0;
  };
  static Blanks blanks_after(Blanks before, std::string_view bytes);
  // The grammar bounds what is between JSON's tokens, and here the text is there.
  bool between_tokens();
  bool too_blank(TokenId token) const;
  void drop_blanks(std::span<std::uint32_t> words);

  std::shared_ptr<const CompiledGrammar> grammar_;
  StackSets sets_;
  std::vector<SetId> history_;  // after each token that can be taken back; the last is now
  std::vector<Blanks> blanks_;  // likewise
  bool ended_ = false;
  bool exhausted_ = false;
  std::vector<SetId> path_;
  std::vector<StackTop> tops_;
};

}  // namespace saccade::grammar
