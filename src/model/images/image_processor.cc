#include "model/images/image_processor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/given/given_rows.h"
#include "model/prompts/placeholders.h"

namespace saccade {
namespace {

// Frames a second, of those that are taken. Eight frames of an hour are 0.002; over the most frames
// that there may be, positions in time of these still fit 32 bits.
constexpr double kLeastFps = 0.001;
constexpr double kMaxFps = 1000;
constexpr std::int64_t kMaxFrames = 1 << 16;

}  // namespace

void describe_images(const ImagePipeline& images, ModelShape& shape) {
  shape.has_vision = true;
  shape.max_image_patches = images.max_patches();
  shape.max_image_tokens = images.max_tokens();
}

Pixels ImagePipeline::resized(const Pixels& pixels, const ImageLayout& layout,
                              const Cancelled& cancelled) const {
  return resize(pixels, layout.resized_width, layout.resized_height, filter_, cancelled);
}

Result<ImageLayout> ImagePipeline::given_layout(const GivenRows&) const {
  return fail(ErrorCode::kUnsupported,
              "{} is not taken: prompts say how an image was cut, and rows do not tell",
              kGivenRows);
}

std::string ImageProcessor::guard_literals(std::string_view user_text) const {
  return guard(user_text, words_.literals);
}

Result<ImageLayout> ImageProcessor::image_layout(int width, int height,
                                                 const ImageControls& controls) const {
  if (controls.min_pixels && controls.max_pixels && *controls.min_pixels > *controls.max_pixels)
    return fail(ErrorCode::kInvalid, "min_pixels {} is over max_pixels {}", *controls.min_pixels,
                *controls.max_pixels);
  TRY(ImageLayout layout, images_->layout(width, height, controls));
  TRY_DO(check_fits("an image", width, height, layout.grid_t * layout.grid_h * layout.grid_w));
  return layout;
}

Result<ImageLayout> ImageProcessor::given_layout(const GivenRows& given) const {
  auto layout = images_->given_layout(given);
  if (!layout) return fail_within(shape().family, std::move(layout).error());
  if (given.rows > shape().max_image_tokens)
    return fail(ErrorCode::kInvalid, "{} has {} rows, the largest image has {}", kGivenRows,
                given.rows, shape().max_image_tokens);
  return layout;
}

Result<void> ImageProcessor::check_decoded(const Pixels& pixels, const ImageLayout& layout) {
  if (pixels.width != layout.width || pixels.height != layout.height)
    return fail(ErrorCode::kUndecodable, "image decoded to {}x{}, its header said {}x{}",
                pixels.width, pixels.height, layout.width, layout.height);
  return {};
}

Result<Pixels> ImageProcessor::resized_image(const Pixels& pixels, const ImageLayout& layout,
                                             const Cancelled& cancelled) const {
  TRY_DO(check_decoded(pixels, layout));
  Pixels resized = layout.frames > 0 && videos_ != nullptr
                       ? videos_->resized(pixels, layout, cancelled)
                       : images_->resized(pixels, layout, cancelled);
  TRY_DO(check_cancelled(cancelled));
  return resized;
}

Result<PreparedImage> ImageProcessor::prepare_image(const Pixels& pixels, const ImageLayout& layout,
                                                    const Cancelled& cancelled) const {
  PreparedImage prepared{layout, {}, images_->cutter()};
  TRY(prepared.frames.emplace_back(), resized_image(pixels, layout, cancelled));
  return prepared;
}

Result<void> check_frames(const VideoControls& controls) {
  if (controls.frames < 1 || controls.frames > kMaxFrames)
    return fail(ErrorCode::kInvalid, "{} frames, 1 to {} are possible", controls.frames,
                kMaxFrames);
  if (!(controls.fps >= kLeastFps && controls.fps <= kMaxFps)) {
    return fail(Error{
        ErrorCode::kInvalid,
        fmt::format("fps is {}, {} to {} are possible", controls.fps, kLeastFps, kMaxFps), "fps"});
  }
  if (!controls.seconds.empty() && std::cmp_not_equal(controls.seconds.size(), controls.frames))
    return fail(ErrorCode::kInvalid, "{} times for {} frames", controls.seconds.size(),
                controls.frames);
  return {};
}

Result<ImageLayout> ImageProcessor::video_layout(int width, int height,
                                                 const VideoControls& controls) const {
  if (videos_ == nullptr) return Processor::video_layout(width, height, controls);
  TRY(ImageLayout video, videos_->layout(width, height, controls));
  TRY_DO(check_fits("a frame", width, height, video.grid_h * video.grid_w));
  return video;
}

Result<std::vector<std::int64_t>> ImageProcessor::sample_frames(const VideoFacts& file,
                                                                const FrameChoice& choice) const {
  if (videos_ == nullptr) return Processor::sample_frames(file, choice);
  return videos_->sampling().indices(file, choice);
}

Result<PreparedImage> ImageProcessor::prepare_frames(std::span<const Pixels> frames,
                                                     const ImageLayout& video,
                                                     const Cancelled& cancelled) const {
  if (videos_ == nullptr) return Processor::prepare_frames(frames, video, cancelled);
  std::vector<Pixels> resized;
  for (const Pixels& frame : frames) {
    TRY(Pixels pixels, resized_image(frame, video, cancelled));
    resized.push_back(std::move(pixels));
  }
  return videos_->group(std::move(resized), video);
}

Result<Prompt> ImageProcessor::expand_images(std::span<const TokenId> ids, TokenId placeholder,
                                             std::span<const ImageLayout> images) const {
  std::vector<std::int64_t> counts;
  for (const ImageLayout& image : images) counts.push_back(image.tokens);
  TRY(ExpandedPrompt expanded, expand_placeholders(ids, placeholder, counts));
  TRY(Prompt prompt, wrap_tokens(std::move(expanded.ids)));
  prompt.images = std::move(expanded.images);
  return prompt;
}

Result<Prompt> ImageProcessor::expand_pieces(std::span<const TokenId> ids,
                                             std::span<const TokenId> placeholders,
                                             std::span<const ImageSpan> pieces) const {
  std::vector<TokenId> expanded;
  std::vector<ImageSpan> spans;
  for (const TokenId id : ids) {
    if (std::ranges::find(placeholders, id) == placeholders.end()) {
      expanded.push_back(id);
      continue;
    }
    if (spans.size() == pieces.size())
      return fail(ErrorCode::kInvalid,
                  "the prompt has more placeholders of images and frames than the {} there are",
                  pieces.size());
    ImageSpan span = pieces[spans.size()];
    span.begin = static_cast<std::int64_t>(expanded.size());
    expanded.insert(expanded.end(), static_cast<std::size_t>(span.tokens), id);
    spans.push_back(span);
  }
  if (spans.size() != pieces.size())
    return fail(ErrorCode::kInvalid,
                "the prompt has {} placeholders for {} images and frames: the tokenizer has no "
                "such token",
                spans.size(), pieces.size());
  TRY(Prompt prompt, wrap_tokens(std::move(expanded)));
  prompt.images = std::move(spans);
  return prompt;
}

}  // namespace saccade
