// A working tokenizer.json without any training data, for checkpoints with random weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace saccade {

struct SpecialTokenAt {
  TokenId id = 0;
  std::string text;
  bool special = true;  // false: an answer's text shows it
};

struct SyntheticTokenizerOptions {
  bool nfc = true;    // the normaliser, or none
  std::string begin;  // a special token that add_special_tokens puts in front; empty: none
};

// A byte-level BPE file with `vocab_size` tokens in its model: the 256 bytes, special tokens whose
// id is below `vocab_size`, and tokens of letters with their merges. Special tokens from
// `vocab_size` on follow the model; ids left out between them become "<|reserved_ID|>". The same
// arguments give the same file. `pattern` is the pre-tokeniser's, in Oniguruma's syntax.
// CHECKs: ids unique and in [0, 2^22), texts unique, room for the bytes.
std::string make_byte_level_tokenizer_json(std::int64_t vocab_size,
                                           const std::vector<SpecialTokenAt>& special_tokens,
                                           const std::string& pattern,
                                           const SyntheticTokenizerOptions& options = {});

// A WordPiece file as BERT's, lower case: [PAD] is 0, [UNK] 100, [CLS] 101, [SEP] 102, [MASK] 103,
// then every printable ASCII character as a word and as its continuation, then words and
// continuations of two and three letters. CHECKs that `vocab_size` is in [512, 36000].
std::string make_word_piece_tokenizer_json(std::int64_t vocab_size);

}  // namespace saccade
