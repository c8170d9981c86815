#include "simulate/prompt_maker.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/engine_plan.h"
#include "simulate/machines/pd_machine.h"

namespace saccade::simulate {
namespace {

constexpr std::int64_t kBytesOfToken = 4;  // of text, as the proxy counts
constexpr std::int64_t kHead = 8;          // tokens of a template before the first image
constexpr TokenId kPlaceholder = 0;
constexpr std::uint64_t kTextTokens = 1u << 16;

}  // namespace

// Equal for prompts that are equal.
std::uint64_t PromptMaker::name_of(std::uint32_t index) const {
  const SimRequest& request = workload_.requests[index];
  return request.content != 0 ? request.content : hash_combine(0x5acc, index);
}

cluster::ScannedBody PromptMaker::scanned(std::uint32_t index) const {
  const SimRequest& request = workload_.requests[index];
  cluster::ScannedBody body;
  body.stream = true;
  body.text_bytes = static_cast<std::size_t>(request.text_tokens * kBytesOfToken);
  std::size_t at = body.text_bytes;
  for (const SimImage& image : workload_.images_of(request)) {
    const std::size_t encoded = static_cast<std::size_t>(image.bytes) / 3 * 4;  // base64
    body.media.push_back({at, at + encoded, false});
    at += encoded;
  }
  const auto hashes = workload_.hashes_of(request);
  body.opening =
      hashes.empty() ? name_of(index) : hash_combine(1, static_cast<std::uint64_t>(hashes.front()));
  return body;
}

Result<std::vector<serve::ImageToSize>> PromptMaker::images(std::uint32_t index) const {
  std::vector<serve::ImageToSize> images;
  for (const SimImage& sim_image : workload_.images_of(workload_.requests[index])) {
    serve::ImageToSize image;
    for (std::size_t i = 0; i < 8; ++i)
      image.content[i] = static_cast<std::uint8_t>(sim_image.content >> 8 * i);
    TRY(image.layout,
        model_.processor->image_layout(sim_image.width, sim_image.height, image.controls));
    images.push_back(std::move(image));
  }
  return images;
}

Request PromptMaker::request(std::uint32_t index,
                             std::span<const serve::ImageToSize> images) const {
  const SimRequest& sim_request = workload_.requests[index];
  const auto hashes = workload_.hashes_of(sim_request);
  const std::uint64_t own = name_of(index);
  Prompt prompt;
  std::int64_t text = 0;
  const auto add_text = [&](std::int64_t until) {
    for (; text < until; ++text) {
      const auto block = static_cast<std::size_t>(text / kHashedTokens);
      const std::uint64_t name =
          block < hashes.size() ? static_cast<std::uint64_t>(hashes[block]) : own;
      prompt.ids.push_back(static_cast<TokenId>(
          1 + hash_combine(name, static_cast<std::uint64_t>(text)) % kTextTokens));
    }
  };
  // Of images that are attended to across, one token stands for all rows.
  prompt.cross_attends = model_.shape.cross_attends();
  const auto tokens_of = [&](const ImageLayout& layout) {
    return prompt.cross_attends ? std::int64_t{1} : layout.tokens;
  };
  std::int64_t length = sim_request.text_tokens;
  for (const serve::ImageToSize& image : images) length += tokens_of(image.layout);
  prompt.ids.reserve(static_cast<std::size_t>(length));
  std::vector<RequestImage> of;
  add_text(images.empty() ? sim_request.text_tokens : std::min(kHead, sim_request.text_tokens / 2));
  const auto wanted = workload_.images_of(sim_request);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const ImageLayout& layout = images[i].layout;
    RequestImage image;
    const std::int64_t tokens = tokens_of(layout);
    image.span = {static_cast<std::int64_t>(prompt.ids.size()), tokens, static_cast<int>(i), 0};
    image.content = images[i].content;
    image.layout = layout;
    image.source = std::make_shared<TimedImage>(
        layout, static_cast<std::size_t>(wanted[i].bytes / embedding_row_bytes(model_.shape)));
    prompt.images.push_back(image.span);
    prompt.ids.insert(prompt.ids.end(), static_cast<std::size_t>(tokens), kPlaceholder);
    of.push_back(std::move(image));
  }
  add_text(sim_request.text_tokens);
  Request request;
  request.prompt = std::move(prompt);
  request.images = std::move(of);
  request.sampling.max_tokens = sim_request.output_tokens;
  return request;
}

}  // namespace saccade::simulate
