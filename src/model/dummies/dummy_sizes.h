// What a family's checkpoints of random weights are made of: true shapes of the published sizes,
// and a tiny one. They are data, the files *.dummies beside this; common.dummies says their form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/synthetic_tokenizer.h"

namespace saccade {

// A checkpoint of random weights to write: everything but the weights.
struct DummyFile {
  std::string name;
  std::string text;
};
struct DummyCheckpoint {
  std::vector<DummyFile> files;  // config.json first, generation_config.json, ...
  std::string chat_template;     // written where old and new readers look for it
  // Of tokenizer.json and tokenizer_config.json; without pieces `files` has both.
  std::int64_t tokenizer_pieces = 0;  // bytes and letters, before the special tokens
  std::vector<SpecialTokenAt> special_tokens;
  std::string tokenizer_pattern;
  SyntheticTokenizerOptions tokenizer_options;
  std::string tokenizer_class;
  std::string end_token;
  std::string pad_token;
};

// "tiny", "2b"; CHECKs that the family has any.
std::vector<std::string_view> dummy_sizes(std::string_view family);
// One of them.
DummyCheckpoint make_dummy(std::string_view family, std::string_view size);

}  // namespace saccade
