#include "engine/admission/sequence.h"

#include <algorithm>
#include <utility>

namespace saccade {
namespace {

std::vector<SequenceImage> placed_images(const Request& request, const PromptLayout& layout) {
  std::vector<SequenceImage> images;
  for (std::size_t index = 0; index < request.images->size(); ++index) {
    SequenceImage& image = images.emplace_back();
    image.index = static_cast<int>(index);
    image.rows = (*request.images)[index].layout.tokens;
    image.key = layout.keys[index];
    image.begin = static_cast<std::int64_t>(request.prompt->ids.size());
  }
  for (const ImageSpan& span : request.prompt->images) {
    SequenceImage& image = images[static_cast<std::size_t>(span.index)];
    image.begin = std::min(image.begin, span.begin);
    image.end = std::max(image.end, span.begin + span.tokens);
  }
  std::sort(images.begin(), images.end(),
            [](const SequenceImage& a, const SequenceImage& b) { return a.begin < b.begin; });
  return images;
}

}  // namespace

Sequence::Sequence(Request from, std::string_view model, std::int64_t short_from,
                   std::int64_t block_tokens, std::int64_t max_model_len)
    : request(std::move(from)),
      layout(request, model, block_tokens),
      short_length(short_from),
      max_length(std::min(prompt_tokens() + request.sampling.max_tokens, max_model_len)),
      progress(SequenceProgress{.tokens = request.prompt->ids}),
      images(placed_images(request, layout)) {}

}  // namespace saccade
