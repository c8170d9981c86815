#include "model/prompts/processor.h"

#include <numeric>
#include <utility>

#include "model/families.h"

namespace saccade {

Result<std::unique_ptr<Processor>> Processor::open(const Checkpoint& checkpoint) {
  TRY(UnloadedModel model, create_model(checkpoint));
  return std::move(model.processor);
}

Result<void> Processor::check_fits(std::string_view what, int width, int height,
                                   std::int64_t patches) const {
  const std::int64_t most = max_patches_ > 0 ? max_patches_ : shape_.max_image_patches;
  if (patches > most)
    return fail(ErrorCode::kTooLarge,
                "{} of {}x{} pixels becomes {} patches, limit {}; a lower max_pixels makes it "
                "smaller",
                what, width, height, patches, most);
  return {};
}

Result<ImageLayout> Processor::image_layout(int, int, const ImageControls&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
}

Result<ImageLayout> Processor::given_layout(const GivenRows&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
}

Result<Pixels> Processor::resized_image(const Pixels&, const ImageLayout&, const Cancelled&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
}

Result<PreparedImage> Processor::prepare_image(const Pixels&, const ImageLayout&,
                                               const Cancelled&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
}

Result<ImageLayout> Processor::video_layout(int, int, const VideoControls&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no videos", shape_.family);
}

Result<std::vector<std::int64_t>> Processor::sample_frames(const VideoFacts&,
                                                           const FrameChoice&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no videos", shape_.family);
}

Result<PreparedImage> Processor::prepare_frames(std::span<const Pixels>, const ImageLayout&,
                                                const Cancelled&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no videos", shape_.family);
}

Result<Prompt> Processor::wrap_tokens(std::vector<TokenId> ids) const {
  for (const TokenId id : ids) {
    if (id < 0 || id >= shape_.vocab + shape_.placeholders)
      return fail(ErrorCode::kInvalid, "token id {} is outside the vocabulary of {}", id,
                  shape_.vocab);
  }
  Prompt prompt;
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  prompt.positions.assign(static_cast<std::size_t>(shape_.position_axes), positions);
  prompt.ids = std::move(ids);
  return prompt;
}

std::string Processor::guard_literals(std::string_view user_text) const {
  return std::string(user_text);
}

std::string Processor::image_placeholder(int) const { return {}; }
std::string Processor::video_placeholder() const { return {}; }

}  // namespace saccade
