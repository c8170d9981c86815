#include "model/model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "ops/readback.h"

namespace saccade {
namespace {

// The interval that holds token `at`, or null.
const TokenInterval* interval_of(const Prompt& prompt, std::int64_t at) {
  const auto found = std::ranges::upper_bound(prompt.both_ways, at, {}, &TokenInterval::end);
  return found != prompt.both_ways.end() && found->begin <= at ? &*found : nullptr;
}

}  // namespace

void cut_rows(ThreadPool& pool, const PreparedImage& image, std::int64_t begin, std::int64_t end,
              std::span<float> to) {
  constexpr std::int64_t kPiece = 64;  // rows
  const std::int64_t length = image.cutter->row_length();
  CHECK(std::cmp_equal(to.size(), (end - begin) * length), "{} floats for {} rows of {}", to.size(),
        end - begin, length);
  pool.parallel_each((end - begin + kPiece - 1) / kPiece, [&](std::int64_t i, int) {
    const std::int64_t first = i * kPiece;
    const std::int64_t rows = std::min(kPiece, end - begin - first);
    image.cutter->cut(image.frames, begin + first, begin + first + rows,
                      to.subspan(static_cast<std::size_t>(first * length),
                                 static_cast<std::size_t>(rows * length)));
  });
}

ImageLayout group_layout(const ImageLayout& video, std::int64_t frames) {
  ImageLayout group = video;
  group.grid_t = 1;
  group.frames = frames;
  group.tokens = video.tokens / video.grid_t;
  return group;
}

std::int64_t least_step_end(const Prompt& prompt, std::int64_t begin) {
  if (begin < prompt.bidirectional_prefix) return prompt.bidirectional_prefix;
  const TokenInterval* interval = interval_of(prompt, begin);
  return interval != nullptr ? interval->end : begin;
}

std::int64_t last_step_end(const Prompt& prompt, std::int64_t begin, std::int64_t end) {
  if (end < prompt.bidirectional_prefix) return begin;
  const TokenInterval* cut = interval_of(prompt, end);
  return cut != nullptr && cut->begin < end ? std::max(begin, cut->begin) : end;
}

std::int64_t least_step_tokens(const Prompt& prompt) {
  std::int64_t most = prompt.bidirectional_prefix;
  for (const TokenInterval each : prompt.both_ways) most = std::max(most, each.end - each.begin);
  return most;
}

void show(const Tap& tap, Stream& stream, std::string_view name, View value) {
  if (!tap) return;
  Buffer staging;
  const auto shown = readable(stream, value, staging);
  CHECK(shown.has_value(), "tap {}: {}", name, shown.error().message);
  tap(name, *shown);
}

Result<ImageLayout> Model::image_layout(int, int, const ImageControls&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
}

Result<Pixels> Model::resized_image(const Pixels&, const ImageLayout&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
}

Result<PreparedImage> Model::prepare_image(const Pixels&, const ImageLayout&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no images", shape_.family);
}

Result<ImageLayout> Model::video_layout(int, int, const VideoControls&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no videos", shape_.family);
}

Result<PreparedImage> Model::prepare_frames(std::span<const Pixels>, const ImageLayout&) const {
  return fail(ErrorCode::kUnsupported, "{} takes no videos", shape_.family);
}

std::unique_ptr<EncodeRun> Model::begin_encode(Stream&, std::span<const PreparedImage* const>,
                                               std::span<const View>, const Tap&) {
  CHECK(false, "{} takes no images", shape_.family);
  return nullptr;
}

Result<Prompt> Model::wrap_tokens(std::vector<TokenId> ids) const {
  for (const TokenId id : ids) {
    if (id < 0 || id >= shape_.vocab)
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

std::string Model::guard_literals(std::string_view user_text) const {
  return std::string(user_text);
}

std::string Model::image_placeholder(int) const { return {}; }
std::string Model::video_placeholder() const { return {}; }

}  // namespace saccade
