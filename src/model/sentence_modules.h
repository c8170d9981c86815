// The files that sentence-transformers puts beside a checkpoint: how token vectors become one, and
// how much of a text is read. Both forms that its versions have written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace saccade {

enum class Pooling { kMean, kCls };
std::string_view name_of(Pooling pooling);

struct SentenceModules {
  Pooling pooling = Pooling::kMean;        // where there is no modules.json
  bool normalise = false;                  // a Normalize module follows
  std::optional<std::int64_t> max_tokens;  // sentence_bert_config.json, else tokenizer_config.json
  std::optional<std::int64_t> dimensions;  // as the pooling module states it
};

// Reads modules.json and what it names, sentence_bert_config.json and tokenizer_config.json of a
// checkpoint's folder; a file that is not there says nothing. kUnsupported names a module or a
// pooling mode that is not done.
Result<SentenceModules> read_sentence_modules(const std::string& directory);

}  // namespace saccade
