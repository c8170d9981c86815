// tokenizer.model: SentencePiece's own file, through its own library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/pipeline/added_tokens.h"
#include "text/tokenizer.h"

namespace saccade {

struct SentencePieceOptions {
  bool add_bos = true;  // what add_special_tokens adds, where the model has them
  bool add_eos = false;
  // Whether a text after a special token begins as if after a space, like the first one. Only for
  // models that begin texts so.
  bool prefix_after_special = true;
};

// `model`: the bytes of the file. Control tokens of the model and `added` are looked for in the
// text. kInvalid with the library's words when it refuses the model.
Result<std::unique_ptr<Tokenizer>> make_sentencepiece_tokenizer(
    const std::string& model, const std::vector<AddedTokenEntry>& added,
    const SentencePieceOptions& options);

}  // namespace saccade
