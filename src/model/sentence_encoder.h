// A model whose answer to a text is one vector: what /v1/embeddings serves. A family makes one from
// a checkpoint, as it makes a Model; there is no cache, no sampling and no next token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/network.h"
#include "ops/device.h"
#include "text/tokenizer.h"

namespace saccade {

struct EncoderShape {
  std::string family;
  std::int64_t dimensions = 0;  // of an embedding
  std::int64_t vocab = 0;
  std::int64_t max_tokens = 0;  // longest sequence, its special tokens included
  std::string pooling;          // "mean", "cls"
  bool normalised = false;      // embeddings have length 1
  std::int64_t parameters = 0;
  std::size_t weight_bytes = 0;  // as packed on the device
};

// Const after load; forward() is called by one thread, everything else by any.
class SentenceEncoder {
 public:
  virtual ~SentenceEncoder() = default;

  const EncoderShape& shape() const { return shape_; }

  // A text's ids, special tokens included where wanted; of any length.
  virtual std::vector<TokenId> tokenize(const Tokenizer& tokenizer, std::string_view text,
                                        bool add_special_tokens = true) const;
  // Cuts to `most` ids as the reference does: the end of the text goes, a closing special token
  // stays.
  virtual void truncate(const Tokenizer& tokenizer, std::vector<TokenId>& ids,
                        std::int64_t most) const;

  // Makes the scratch of forward() for that many tokens and sequences at once.
  virtual Result<void> reserve(Device& device, std::int64_t rows, std::int64_t sequences) = 0;
  virtual std::size_t scratch_bytes() const { return 0; }

  // Submits one step; the caller retires the stream's lists afterwards. Row i of `out` [sequences,
  // dimensions], f32 on the device, is the embedding of ids [begins[i], begins[i+1]),
  // 1 to max_tokens of them. It does not depend on the other sequences, bit for bit. Taps:
  // text.embed, text.layer.N, text.pooled, text.embedding.
  virtual void forward(Stream& stream, std::span<const TokenId> ids,
                       std::span<const std::int32_t> begins, View out, const Tap& tap = {}) = 0;

 protected:
  EncoderShape shape_;
};

}  // namespace saccade
