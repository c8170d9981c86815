#include "engine/admission/prompt_layout.h"

#include "memory/embedding_store.h"

namespace saccade {

PromptLayout::PromptLayout(const Request& request, std::string_view model,
                           std::int64_t block_tokens) {
  std::vector<std::int64_t> rows;
  for (const RequestImage& image : *request.images) {
    keys.push_back(embedding_key(image.content, image.layout.key, model));
    rows.push_back(image.layout.tokens);
  }
  const auto key = [&](int index) { return keys[static_cast<std::size_t>(index)]; };
  for (const ImageSpan& span : request.prompt->images) {
    images.push_back({span.begin, span.tokens, span.first_row, key(span.index)});
    const ImageLayout& of = (*request.images)[static_cast<std::size_t>(span.index)].layout;
    (of.frames > 0 ? video_tokens : image_tokens) += span.tokens;
  }
  cross_images = lay_out_cross_images(*request.prompt, rows, block_tokens);
  encoder_tokens = stream_length(cross_images, block_tokens);
  for (const CrossImage& image : cross_images)
    encoder_images.push_back({image.first, image.rows, 0, key(image.index)});
}

}  // namespace saccade
