// What a family's checkpoints of random weights are made of: true shapes of the published sizes,
// and a tiny one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/result.h"
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

// A family's sizes are an array of a struct of its own, whose `name` is the size's.
template <typename Size, std::size_t kCount>
constexpr std::array<std::string_view, kCount> names_of(const std::array<Size, kCount>& sizes) {
  std::array<std::string_view, kCount> names;
  std::ranges::transform(sizes, names.begin(), &Size::name);
  return names;
}
template <typename Size, std::size_t kCount>
const Size& size_named(const std::array<Size, kCount>& sizes, std::string_view name) {
  const auto found = std::ranges::find(sizes, name, &Size::name);
  CHECK(found != sizes.end(), "size {}", name);
  return *found;
}

struct DummySizes {
  std::span<const std::string_view> names;                           // "tiny", "2b"
  Result<DummyCheckpoint> (*make)(std::string_view name) = nullptr;  // one of them
};

}  // namespace saccade
