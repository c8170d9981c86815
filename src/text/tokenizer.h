// Text to token ids and back, from a checkpoint's own files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/named_files.h"
#include "base/result.h"

namespace saccade {

using TokenId = std::int32_t;

struct EncodeOptions {
  bool add_special_tokens = false;  // what the post-processor adds (bos, eos)
  // Literal "<|im_end|>" in the text becomes that token; false: plain text.
  bool parse_special_tokens = true;
};

// What decoding one sequence has to remember between its tokens.
struct DecodeState {
  bool first = true;  // no token has added to the text yet
  int stripped = 0;   // characters taken off the front of the text so far
  std::string held;   // bytes that are not yet certain to be text
};

// Immutable after load; any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Invalid UTF-8 counts as U+FFFD.
  virtual std::vector<TokenId> encode(std::string_view utf8,
                                      const EncodeOptions& options = {}) const = 0;
  // Bytes that this token stands for. May be part of a UTF-8 sequence. Empty for an id out of
  // range.
  virtual std::string_view piece(TokenId id) const = 0;
  // Text of a whole sequence, as the reference's decode(); differs from joined pieces where a
  // decoder strips a leading space. Invalid UTF-8 becomes U+FFFD.
  virtual std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const = 0;
  virtual std::optional<TokenId> token_to_id(std::string_view token) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  virtual std::int32_t vocab_size() const = 0;  // one past the largest id
  virtual std::size_t longest_piece_bytes() const = 0;

  // decode() in steps: appends to `out` the text that `id` makes certain; decode_end() the rest.
  // These join pieces and hold back an unfinished UTF-8 sequence; a tokenizer whose decoder does
  // more overrides both.
  virtual void decode_next(TokenId id, DecodeState& state, std::string& out) const;
  virtual void decode_end(DecodeState& state, std::string& out) const;
};

// tokenizer.json among `files`, else tokenizer.model, else vocab.json with merges.txt; and what
// added_tokens_decoder of tokenizer_config.json adds. kNotFound when there is none of them,
// kUnsupported names the part of a file that is not understood.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const NamedFiles& files);
// From the text of a tokenizer.json.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view tokenizer_json);

}  // namespace saccade
