#include "engine/admission/sequence.h"

#include <algorithm>
#include <utility>

#include "memory/embedding_store.h"

namespace saccade {
namespace {

std::int64_t media_tokens(const Request& request, bool of_videos) {
  std::int64_t sum = 0;
  for (const ImageSpan& span : request.prompt->images) {
    const RequestImage& image = (*request.images)[static_cast<std::size_t>(span.index)];
    if ((image.layout.frames > 0) == of_videos) sum += span.tokens;
  }
  return sum;
}

}  // namespace

Sequence::Sequence(Request from, std::string_view model, std::int64_t short_from,
                   std::int64_t block_tokens)
    : request(std::move(from)), short_length(short_from), tokens(request.prompt->ids) {
  for (std::size_t index = 0; index < request.images->size(); ++index) {
    SequenceImage& image = images.emplace_back();
    image.index = static_cast<int>(index);
    image.rows = (*request.images)[index].layout.tokens;
    image.key =
        embedding_key((*request.images)[index].content, (*request.images)[index].layout.key, model);
    image.begin = prompt_tokens();
  }
  for (const ImageSpan& span : request.prompt->images) {
    SequenceImage& image = images[static_cast<std::size_t>(span.index)];
    image.begin = std::min(image.begin, span.begin);
    image.end = std::max(image.end, span.begin + span.tokens);
    prefix_images.push_back({span.begin, span.tokens, span.first_row, image.key});
    image_ranges.push_back({span.begin, span.tokens});
  }
  std::vector<std::int64_t> rows;
  for (const SequenceImage& image : images) rows.push_back(image.rows);
  cross_images = lay_out_cross_images(*request.prompt, rows, block_tokens);
  encoder_tokens = stream_length(cross_images, block_tokens);
  for (const CrossImage& image : cross_images)
    encoder_images.push_back(
        {image.first, image.rows, 0, images[static_cast<std::size_t>(image.index)].key});
  std::sort(images.begin(), images.end(),
            [](const SequenceImage& a, const SequenceImage& b) { return a.begin < b.begin; });
}

std::int64_t Sequence::image_tokens() const { return media_tokens(request, false); }
std::int64_t Sequence::video_tokens() const { return media_tokens(request, true); }

}  // namespace saccade
