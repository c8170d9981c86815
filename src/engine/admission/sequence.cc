#include "engine/admission/sequence.h"

#include <algorithm>
#include <utility>

namespace saccade {

Sequence::Sequence(Request from, std::string_view model, std::int64_t short_from,
                   std::int64_t block_tokens)
    : request(std::move(from)),
      layout(request, model, block_tokens),
      short_length(short_from),
      tokens(request.prompt->ids) {
  for (std::size_t index = 0; index < request.images->size(); ++index) {
    SequenceImage& image = images.emplace_back();
    image.index = static_cast<int>(index);
    image.rows = (*request.images)[index].layout.tokens;
    image.key = layout.keys[index];
    image.begin = prompt_tokens();
  }
  for (const ImageSpan& span : request.prompt->images) {
    SequenceImage& image = images[static_cast<std::size_t>(span.index)];
    image.begin = std::min(image.begin, span.begin);
    image.end = std::max(image.end, span.begin + span.tokens);
  }
  std::sort(images.begin(), images.end(),
            [](const SequenceImage& a, const SequenceImage& b) { return a.begin < b.begin; });
}

}  // namespace saccade
