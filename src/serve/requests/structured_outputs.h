// The grammars that requests ask their answers to be held to: compiled for the model's vocabulary,
// and kept.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "api/requests/fields/structured_output.h"
#include "grammar/automaton/grammar_cache.h"
#include "text/tokenizer.h"

namespace saccade::serve {

// Any thread.
class StructuredOutputs {
 public:
  // Of all grammars and their masks together; the least recently used are dropped.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  // vocab: columns of the logits; eos: what may follow a complete answer; blanks: of JSON whose
  // request says nothing of them.
  StructuredOutputs(std::shared_ptr<const Tokenizer> tokenizer, std::int64_t vocab,
                    std::vector<TokenId> eos, api::StructuredOutput::Blanks blanks)
      : tokenizer_(std::move(tokenizer)), vocab_(vocab), eos_(std::move(eos)), blanks_(blanks) {}

  // Compiles on the calling thread where it is not kept, for up to about half a second. kInvalid,
  // with the member that asked, for whatever cannot be compiled.
  Result<std::shared_ptr<const grammar::CompiledGrammar>> find(
      const api::StructuredOutput& wanted) const;

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::int64_t vocab_;
  const std::vector<TokenId> eos_;
  const api::StructuredOutput::Blanks blanks_;
  mutable std::once_flag made_;  // the vocabulary's trie, with the first request that needs it
  mutable std::optional<grammar::GrammarCache> cache_;
};

}  // namespace saccade::serve
