// A GGUF's vocabulary as the files that transformers would have: tokenizer.json for byte-level BPE,
// tokenizer.model for SentencePiece, and tokenizer_config.json with the chat template.
#pragma once

#include "base/named_files.h"
#include "base/result.h"
#include "model/gguf/gguf_header.h"

namespace saccade {

// kUnsupported names a tokenizer.ggml.model or tokenizer.ggml.pre that is not read.
Result<NamedFiles::Texts> read_gguf_tokenizer(const GgufMetadata& metadata);

}  // namespace saccade
