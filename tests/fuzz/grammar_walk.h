// What the grammar fuzzers do with a grammar that compiled: walk a little, and hold the masks to
// what the matcher accepts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "grammar/automaton/compiled_grammar.h"
#include "grammar/automaton/matcher.h"

namespace saccade::grammar {

inline std::shared_ptr<const Vocabulary> fuzz_vocabulary() {
  static const auto made = [] {
    std::vector<std::string> pieces;
    for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    for (const char* piece :
         {"ab", "{\"", "\":", "\",", "00", "true", "\\u", "aaaaaaaa", "\"a\""}) {
      pieces.emplace_back(piece);
    }
    const auto end = static_cast<TokenId>(pieces.size());
    pieces.emplace_back("<end>");
    return std::make_shared<const Vocabulary>(pieces, std::vector<TokenId>{end});
  }();
  return made;
}

inline void compile_and_walk(Grammar grammar, std::uint64_t seed) {
  const auto compiled = CompiledGrammar::create(std::move(grammar), fuzz_vocabulary());
  if (!compiled) {
    CHECK(!compiled.error().message.empty());
    return;
  }
  const Vocabulary& vocabulary = (*compiled)->vocabulary();
  Matcher matcher(*compiled);
  Rng rng(seed);
  std::vector<std::uint32_t> words(vocabulary.words());
  for (int step = 0; step < 12 && !matcher.ended(); ++step) {
    matcher.fill_mask(words);
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < vocabulary.size(); ++token) {
      const bool in_mask = (words[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
      const bool taken = matcher.accept(token);
      CHECK(taken == in_mask || matcher.gave_up(), "token {}: mask {}, accept {}", token, in_mask,
            taken);
      if (taken) {
        CHECK(matcher.rollback(1));
        allowed.push_back(token);
      }
    }
    if (allowed.empty()) break;
    CHECK(matcher.accept(allowed[rng.below(allowed.size())]));
  }
}

}  // namespace saccade::grammar
