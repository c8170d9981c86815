// Requests that nobody sent, for measuring an engine and for warming one up: made-up text, and
// pictures of noise.
#pragma once

#include "base/rng.h"
#include "engine/request.h"
#include "model/model.h"

namespace saccade::serve {

class MadeRequests {
 public:
  MadeRequests(const Processor& processor, const Tokenizer& tokenizer, std::uint64_t seed)
      : processor_(processor), tokenizer_(tokenizer), rng_(seed) {}

  // So many tokens, none of which means anything but text, and what the model puts around them.
  Result<Request> text(std::int64_t tokens);
  Result<Request> image(const ImageLayout& layout);

 private:
  const Processor& processor_;
  const Tokenizer& tokenizer_;
  Rng rng_;
};

}  // namespace saccade::serve
