#include "serve/media/media_loader.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/pages/limits.h"
#include "api/requests/rows_file.h"
#include "base/check.h"
#include "base/json.h"
#include "engine/images/compressed_image.h"
#include "engine/images/given_image.h"
#include "engine/images/image_recipe.h"
#include "image/pixels.h"
#include "serve/media/media_reference.h"

namespace saccade::serve {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The nearest wins: the server's bounds of pixels, the request's, the part's own. A request's
// `size` takes the place of the server's.
Result<ImageControls> controls_of(const ServeSettings& settings, const json::object& kwargs,
                                  std::optional<std::int64_t> part_min,
                                  std::optional<std::int64_t> part_max) {
  ImageControls controls;
  controls.processor_kwargs = kwargs;
  const bool sized = json::find(kwargs, "size") != nullptr;
  const auto choose =
      [&](std::string_view name, std::optional<std::int64_t> of_server,
          std::optional<std::int64_t> of_part) -> Result<std::optional<std::int64_t>> {
    if (json::find(kwargs, name) == nullptr) return of_part || sized ? of_part : of_server;
    const auto pixels = json::get_int(kwargs, name);
    if (!pixels || *pixels < 1)
      return fail(Error{ErrorCode::kInvalid,
                        fmt::format("mm_processor_kwargs.{} is no number above 0", name),
                        "mm_processor_kwargs"});
    controls.processor_kwargs.erase(name);
    return of_part ? of_part : std::optional(*pixels);
  };
  TRY(controls.min_pixels, choose("min_pixels", settings.min_pixels, part_min));
  TRY(controls.max_pixels, choose("max_pixels", settings.max_pixels, part_max));
  return controls;
}

}  // namespace

// An image or a video on its way.
struct MediaLoader::Medium {
  const api::ImagePart* image = nullptr;
  const api::VideoPart* video = nullptr;  // or this
  std::string name;                       // "image 0"
  std::vector<std::string> files = {};    // the image, or the frames
  std::optional<GivenRows> given = {};    // what the file is instead of an image
  VideoFrames decoded = {};               // of a video file, less its files
  std::string recipe = {};                // of its layout: image_recipe.h
  Digest digest{};                        // of an image
  ImageControls controls = {};            // what its client says of its size
  ImageLayout layout = {};
  std::optional<LaidOut> copy = std::nullopt;  // what encoders are asked for instead

  bool is_video_file() const { return video != nullptr && !video->file.empty(); }
  // Of what was sent.
  std::size_t count() const {
    return video == nullptr || is_video_file() ? 1 : video->frames.size();
  }
  std::string_view url(std::size_t i) const {
    return trimmed(video == nullptr  ? image->url
                   : is_video_file() ? video->file
                                     : video->frames[i]);
  }
  std::string sent(std::size_t i) const { return is_video_file() ? name : where(i); }
  std::string where(std::size_t i) const {
    return video == nullptr ? name : fmt::format("{}, frame {}", name, i);
  }
};

MediaLoader::MediaLoader(const ServeSettings& settings, const Processor& processor,
                         const Clock& clock)
    : settings_(settings),
      processor_(processor),
      clock_(clock),
      kept_(std::make_unique<KeptImages>(settings.kept_image_bytes)),
      video_files_(settings, processor) {}

Result<std::vector<DownloadOrder::Item>> MediaLoader::remote(
    const api::ChatRequest& request) const {
  TRY(const std::vector<Medium> media, list(request));
  std::vector<DownloadOrder::Item> items;
  for (const Medium& medium : media) {
    for (std::size_t i = 0; i < medium.count(); ++i)
      if (is_remote_media(medium.url(i)))
        items.push_back({std::string(medium.url(i)), medium.sent(i),
                         medium.is_video_file() ? MediaKind::kVideoFile : MediaKind::kImage});
  }
  return items;
}

Result<FetchedMedia> MediaLoader::decode_videos(const api::ChatRequest& request,
                                                std::vector<std::string> downloaded,
                                                ByteReservation* reserved,
                                                const std::function<bool()>& cancelled) const {
  TRY(const std::vector<Medium> media, list(request));
  const std::atomic<bool> never = false;
  VideoRoom room{settings_.max_request_media_bytes, api::limits::kFrames.most};
  for (const api::VideoPart& video : request.videos) room.frames -= video.frames.size();
  FetchedMedia fetched;
  auto next = downloaded.begin();
  for (const Medium& medium : media) {
    if (!medium.is_video_file()) {
      for (std::size_t i = 0; i < medium.count(); ++i)
        if (is_remote_media(medium.url(i))) fetched.files.push_back(std::move(*next++));
      continue;
    }
    if (cancelled()) return fail(ErrorCode::kCancelled, "the client went away");
    Result<std::string> file =
        is_remote_media(medium.url(0))
            ? Result<std::string>(std::move(*next++))
            : read_media(medium.url(0), settings_.media, never, MediaKind::kVideoFile);
    if (!file) return fail_within(medium.name, std::move(file).error());
    TRY(const VideoControls controls, video_controls(medium, request));
    auto frames = video_files_.read(*medium.video, controls, *file, room, reserved, cancelled);
    if (!frames) return fail_within(medium.name, std::move(frames).error());
    fetched.videos.push_back(*std::move(frames));
  }
  return fetched;
}

Result<LoadedMedia> MediaLoader::load(const api::ChatRequest& request, MediaOrigin origin) const {
  const std::shared_ptr<ByteReservation>& reserved = origin.reserved;
  const auto check_client = [&]() -> Result<void> {
    if (origin.cancelled) return fail(ErrorCode::kCancelled, "the client went away");
    return {};
  };
  TRY(std::vector<Medium> media, list(request));
  TRY_DO(read(media, request, origin.client, std::move(origin.fetched), origin.cancelled));
  origin.times.media_done = clock_.now();
  std::size_t bytes = 0;
  for (const Medium& medium : media)
    for (const std::string& file : medium.files) bytes += file.size();
  // Bodies and downloads are counted; files of this machine come on top.
  if (reserved && bytes > reserved->bytes() && !reserved->grow(bytes - reserved->bytes()))
    return fail(ErrorCode::kUnavailable,
                "no room for {} bytes of images and frames beside those of other requests "
                "(--max-preparing-bytes)",
                bytes);

  for (Medium& medium : media) {
    TRY_DO(check_client());
    TRY_DO(measure(medium, request));
    if (medium.image != nullptr && !medium.image->uuid.empty() && !medium.image->url.empty())
      kept_->keep({origin.client, request.delivery.cache_salt, medium.image->uuid},
                  medium.files.front());
  }
  if (origin.sizing != nullptr) TRY_DO(size(media, *origin.sizing));
  LoadedMedia loaded;
  std::int64_t tokens = 0;
  for (const Medium& medium : media) {
    tokens += medium.layout.tokens;
    if (tokens > processor_.shape().max_position) {
      return fail(ErrorCode::kInvalid,
                  "the images and videos up to {} take {} tokens, the model's positions end at {}; "
                  "fewer frames or a lower max_pixels make it less",
                  medium.name, tokens, processor_.shape().max_position);
    }
    loaded.layouts.push_back(medium.layout);
  }
  for (Medium& medium : media) {
    TRY_DO(check_client());
    add_inputs(medium, reserved, loaded);
  }
  if (reserved) reserved->shrink_to(bytes);
  return loaded;
}

// Media in order of appearance, if there may be as many.
Result<std::vector<MediaLoader::Medium>> MediaLoader::list(const api::ChatRequest& request) const {
  const ModelShape& shape = processor_.shape();
  if (!request.images.empty() && !shape.has_vision) {
    return fail(ErrorCode::kInvalid, "{} images were given, and this model takes text alone",
                request.images.size());
  }
  if (!request.videos.empty() && shape.frames_per_grid == 0) {
    return fail(ErrorCode::kInvalid, "{} videos were given, and models of the family {} take none",
                request.videos.size(), shape.family);
  }
  const auto within = [this](const std::string& kind, std::size_t count) -> Result<void> {
    const auto limit = settings_.limit_mm_per_prompt.find(kind);
    if (limit == settings_.limit_mm_per_prompt.end() || std::cmp_less_equal(count, limit->second))
      return {};
    return fail(ErrorCode::kInvalid,
                "At most {} {}(s) may be provided in one prompt, {} were given.", limit->second,
                kind, count);
  };
  TRY_DO(within("image", request.images.size()));
  TRY_DO(within("video", request.videos.size()));

  std::vector<Medium> media;
  for (const api::Message& message : request.messages) {
    for (const api::ContentPart& part : message.content) {
      if (part.kind == api::ContentPart::Kind::kImage)
        media.push_back(
            {.image = &request.images[part.index], .name = fmt::format("image {}", part.index)});
      if (part.kind == api::ContentPart::Kind::kVideo)
        media.push_back(
            {.video = &request.videos[part.index], .name = fmt::format("video {}", part.index)});
    }
  }
  for (const Medium& medium : media) {
    if (medium.video == nullptr || std::cmp_less_equal(medium.count(), settings_.max_video_frames))
      continue;
    return fail(ErrorCode::kInvalid, "{} has {} frames, at most {} are possible", medium.name,
                medium.count(), settings_.max_video_frames);
  }
  return media;
}

Result<std::string> MediaLoader::kept(const Medium& medium, const ImageName& name) const {
  if (const auto bytes = kept_->find(name)) return *bytes;
  return fail(Error{ErrorCode::kInvalid,
                    fmt::format("{}: no image is kept under the uuid '{}': it was never sent with "
                                "one, or others took its room; send it again",
                                medium.name, name.uuid.substr(0, 80)),
                    "messages"});
}

Result<void> MediaLoader::read(std::vector<Medium>& media, const api::ChatRequest& request,
                               std::uint64_t client, FetchedMedia fetched,
                               const std::atomic<bool>& cancelled) const {
  std::size_t total = 0;
  auto next_fetched = fetched.files.begin();
  auto next_video = fetched.videos.begin();
  for (Medium& medium : media) {
    if (medium.is_video_file()) {
      CHECK(next_video != fetched.videos.end());
      medium.decoded = std::move(*next_video++);
      medium.files = std::exchange(medium.decoded.files, {});
      for (const std::string& file : medium.files) total += file.size();
      continue;
    }
    for (std::size_t i = 0; i < medium.count(); ++i) {
      if (is_remote_media(medium.url(i))) {
        medium.files.push_back(std::move(*next_fetched++));
      } else if (medium.image != nullptr && medium.url(i).empty()) {
        TRY(std::string bytes,
            kept(medium, {client, request.delivery.cache_salt, medium.image->uuid}));
        medium.files.push_back(std::move(bytes));
      } else {
        auto bytes = read_media(medium.url(i), settings_.media, cancelled);
        if (!bytes) return fail_within(medium.where(i), std::move(bytes).error());
        medium.files.push_back(*std::move(bytes));
      }
      total += medium.files.back().size();
      if (total > settings_.max_request_media_bytes) {
        return fail(ErrorCode::kTooLarge, "the images and frames up to {} have {} bytes, limit {}",
                    medium.where(i), total, settings_.max_request_media_bytes);
      }
    }
  }
  return {};
}

Result<VideoControls> MediaLoader::video_controls(const Medium& medium,
                                                  const api::ChatRequest& request) const {
  const api::VideoPart& part = *medium.video;
  VideoControls video;
  auto frame =
      controls_of(settings_, request.mm_processor_kwargs, part.min_pixels, part.max_pixels);
  if (!frame) return fail_within(medium.name, std::move(frame).error());
  video.frame = *std::move(frame);
  video.frames = static_cast<std::int64_t>(medium.files.size());
  video.fps = medium.is_video_file() ? medium.decoded.fps : part.fps.value_or(video.fps);
  video.seconds = medium.decoded.seconds;
  video.duration = medium.decoded.duration;
  video.resized = medium.decoded.resized;
  video.total_pixels = part.total_pixels;
  return video;
}

Result<void> MediaLoader::measure(Medium& medium, const api::ChatRequest& request) const {
  if (medium.image != nullptr && api::is_rows_file(medium.files.front())) {
    if (!settings_.mm_embeds)
      return fail(ErrorCode::kInvalid,
                  "{}: image_embeds is taken under --enable-mm-embeds alone: who sends rows is "
                  "trusted",
                  medium.name);
    const auto parts = api::split_rows_file(medium.files.front());
    if (!parts) return fail_within(medium.name, parts.error());
    auto given = read_given_rows({parts->grid, parts->rows}, processor_.shape().embedding_width());
    if (!given) return fail_within(medium.name, std::move(given).error());
    auto layout = processor_.given_layout(*given);
    if (!layout) return fail_within(medium.name, std::move(layout).error());
    medium.layout = *std::move(layout);
    medium.given = *std::move(given);
    medium.digest = content_of(*medium.given);
    return {};
  }
  const ImageLimits limits{.max_pixels = settings_.max_image_pixels};
  int width = 0;
  int height = 0;
  for (std::size_t i = 0; i < medium.files.size(); ++i) {
    const auto header = probe_image(as_bytes(medium.files[i]), limits);
    if (!header) return fail_within(medium.where(i), header.error());
    if (i > 0 && (header->width != width || header->height != height)) {
      return fail(ErrorCode::kInvalid,
                  "{} is {}x{} pixels, frame 0 is {}x{}: frames of a video have one size",
                  medium.where(i), header->width, header->height, width, height);
    }
    width = header->width;
    height = header->height;
  }
  Result<ImageLayout> layout;
  if (medium.video == nullptr) {
    auto chosen = controls_of(settings_, request.mm_processor_kwargs, medium.image->min_pixels,
                              medium.image->max_pixels);
    if (!chosen) return fail_within(medium.name, std::move(chosen).error());
    medium.controls = *std::move(chosen);
    if (medium.image->detail == api::ImageDetail::kLow)
      medium.controls.max_tokens = settings_.low_detail_tokens;
    medium.digest = media_digest(medium.files, false);
    layout = processor_.image_layout(width, height, medium.controls);
  } else {
    TRY(const VideoControls video, video_controls(medium, request));
    medium.controls = video.frame;
    medium.recipe = write_image_recipe({{}, video});
    layout = processor_.video_layout(width, height, video);
  }
  if (!layout) return fail_within(medium.name, std::move(layout).error());
  medium.layout = *std::move(layout);
  return {};
}

// Images get their sizes from the sizer; videos keep theirs, and what they take is counted. In the
// order of the encoder's inputs, images before videos where both are: what counts is how many.
Result<void> MediaLoader::size(std::vector<Medium>& media, ImageSizing& sizing) const {
  std::vector<ImageToSize> images;
  for (const Medium& medium : media) {
    if (medium.video != nullptr) {
      const std::int64_t groups = std::max<std::int64_t>(1, medium.layout.grid_t);
      sizing.request.other_encodes.insert(sizing.request.other_encodes.end(),
                                          static_cast<std::size_t>(groups),
                                          group_layout(medium.layout, 1).tokens);
    } else if (!medium.given) {
      images.push_back({medium.controls, medium.digest,
                        medium.image->detail == api::ImageDetail::kHigh, medium.layout,
                        std::nullopt});
    }
  }
  TRY_DO(sizing.sizer.size(images, sizing.request, sizing.sized));
  auto next = images.begin();
  for (Medium& medium : media) {
    if (medium.video != nullptr || medium.given) continue;
    medium.layout = std::move(next->layout);
    medium.controls = std::move(next->controls);
    medium.copy = std::move(next->copy);
    ++next;
  }
  return {};
}

void MediaLoader::add_inputs(Medium& medium, const std::shared_ptr<const ByteReservation>& held,
                             LoadedMedia& loaded) const {
  if (medium.given) {
    RequestImage& input = loaded.inputs.emplace_back();
    input.content = medium.digest;
    input.layout = medium.layout;
    input.source = std::make_shared<const GivenImage>(*std::move(medium.given), held);
    return;
  }
  const ImageLimits limits{.max_pixels = settings_.max_image_pixels};
  const ImageLayout& layout = medium.layout;
  const bool video = medium.video != nullptr;
  const auto depth = video ? static_cast<std::size_t>(processor_.shape().frames_per_grid) : 1u;
  for (std::size_t begin = 0; begin < medium.files.size(); begin += depth) {
    const std::size_t end = std::min(begin + depth, medium.files.size());
    std::vector<CompressedImage::Frame> frames;
    RequestImage& input = loaded.inputs.emplace_back();
    input.content = video ? media_digest(std::span(medium.files).subspan(begin, end - begin), true)
                          : medium.digest;
    for (std::size_t i = begin; i < end; ++i)
      frames.push_back({std::move(medium.files[i]), medium.where(i)});
    input.layout = video ? group_layout(layout, static_cast<std::int64_t>(end - begin)) : layout;
    if (!video) medium.recipe = write_image_recipe({medium.controls, std::nullopt});
    auto source = std::make_shared<const CompressedImage>(processor_, layout, std::move(frames),
                                                          limits, held, medium.recipe);
    if (medium.copy)
      source = source->with_copy(medium.copy->layout,
                                 write_image_recipe({medium.copy->controls, std::nullopt}));
    input.source = std::move(source);
  }
}

}  // namespace saccade::serve
