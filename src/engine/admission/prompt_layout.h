// Where a request's images stand in its prompt and in the stream that layers attend across to, with
// the names that their rows have. Computed once; nothing of it changes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "engine/request.h"
#include "memory/prefix/prefix_content.h"
#include "model/blocks/cross_images.h"

namespace saccade {

struct PromptLayout {
  // `model`: what makes the embeddings, a part of their names. `block_tokens`: of the KV cache.
  PromptLayout(const Request& request, std::string_view model, std::int64_t block_tokens);

  std::vector<Digest> keys;         // [Request::images] names of their embeddings
  std::vector<PrefixImage> images;  // the prompt's spans, ascending
  // Of a model that attends across: where the rows of its images are in their stream.
  std::vector<CrossImage> cross_images;
  std::vector<PrefixImage> encoder_images;
  std::int64_t encoder_tokens = 0;
  std::int64_t image_tokens = 0;  // of the prompt
  std::int64_t video_tokens = 0;
};

}  // namespace saccade
