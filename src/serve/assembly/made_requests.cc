#include "serve/assembly/made_requests.h"

#include <algorithm>
#include <utility>

#include "engine/images/image_source.h"

namespace saccade::serve {
namespace {

constexpr std::int64_t kPlain = 200;  // token ids up to here mean text

}  // namespace

Result<Request> MadeRequests::text(std::int64_t tokens) {
  std::vector<TokenId> ids;
  const auto most =
      static_cast<std::uint64_t>(std::min<std::int64_t>(kPlain, processor_.shape().vocab));
  for (std::int64_t i = 0; i < tokens; ++i) ids.push_back(static_cast<TokenId>(rng_() % most));
  Request request;
  TRY(request.prompt, processor_.wrap_tokens(std::move(ids)));
  return request;
}

Result<Request> MadeRequests::image(const ImageLayout& layout) {
  Pixels noise{layout.width, layout.height, {}};
  noise.rgb.resize(static_cast<std::size_t>(layout.width) *
                   static_cast<std::size_t>(layout.height) * 3);
  for (std::uint8_t& value : noise.rgb) value = static_cast<std::uint8_t>(rng_());
  TRY(PreparedImage prepared, processor_.prepare_image(noise, layout, {}));
  TRY(Prompt prompt,
      processor_.build_prompt(tokenizer_, processor_.image_placeholder(0), {&layout, 1}, false));
  std::vector<RequestImage> images(1);
  for (const ImageSpan& span : prompt.images) images.front().span = span;
  for (auto& byte : images.front().content) byte = static_cast<std::uint8_t>(rng_());
  images.front().layout = layout;
  images.front().source = std::make_shared<ReadyImage>(std::move(prepared));
  Request request;
  request.prompt = std::move(prompt);
  request.images = std::move(images);
  return request;
}

}  // namespace saccade::serve
