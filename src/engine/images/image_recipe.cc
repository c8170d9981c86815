#include "engine/images/image_recipe.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "engine/images/compressed_image.h"

namespace saccade {
namespace {

constexpr std::size_t kMaxBytes = 64u << 10;
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 40;

json::object controls_to_json(const ImageControls& controls) {
  json::object to;
  if (controls.min_pixels) to["min_pixels"] = *controls.min_pixels;
  if (controls.max_pixels) to["max_pixels"] = *controls.max_pixels;
  if (controls.max_tokens) to["max_tokens"] = *controls.max_tokens;
  if (!controls.processor_kwargs.empty()) to["processor_kwargs"] = controls.processor_kwargs;
  return to;
}

Result<void> read_number(const json::object& from, std::string_view name, std::int64_t least,
                         std::optional<std::int64_t>& to) {
  if (json::find(from, name) == nullptr) return {};
  TRY(const std::int64_t value, json::get_int(from, name));
  if (value < least || value > kMaxNumber)
    return fail(ErrorCode::kInvalid, "recipe: {} is {}", name, value);
  to = value;
  return {};
}

Result<ImageControls> controls_from_json(const json::object& from) {
  ImageControls controls;
  TRY_DO(read_number(from, "min_pixels", 1, controls.min_pixels));
  TRY_DO(read_number(from, "max_pixels", 1, controls.max_pixels));
  TRY_DO(read_number(from, "max_tokens", 1, controls.max_tokens));
  if (const json::value* kwargs = json::find(from, "processor_kwargs")) {
    if (!kwargs->is_object())
      return fail(ErrorCode::kInvalid, "recipe: processor_kwargs is no object");
    controls.processor_kwargs = kwargs->get_object();
  }
  return controls;
}

}  // namespace

std::string write_image_recipe(const ImageRecipe& recipe) {
  if (!recipe.video) return boost::json::serialize(controls_to_json(recipe.image));
  json::object video;
  video["frame"] = controls_to_json(recipe.video->frame);
  video["frames"] = recipe.video->frames;
  video["fps"] = recipe.video->fps;
  if (recipe.video->total_pixels) video["total_pixels"] = *recipe.video->total_pixels;
  if (recipe.video->resized) video["resized"] = true;
  json::object to;
  to["video"] = std::move(video);
  return boost::json::serialize(to);
}

Result<ImageRecipe> read_image_recipe(std::string_view text) {
  if (text.size() > kMaxBytes)
    return fail(ErrorCode::kInvalid, "recipe: {} bytes, limit {}", text.size(), kMaxBytes);
  TRY(const json::value tree, json::parse(text));
  if (!tree.is_object()) return fail(ErrorCode::kInvalid, "recipe: no object");
  ImageRecipe recipe;
  const json::value* const given = json::find(tree.get_object(), "video");
  if (given == nullptr) {
    TRY(recipe.image, controls_from_json(tree.get_object()));
    return recipe;
  }
  if (!given->is_object()) return fail(ErrorCode::kInvalid, "recipe: video is no object");
  const json::object& from = given->get_object();
  VideoControls& video = recipe.video.emplace();
  if (const json::value* frame = json::find(from, "frame")) {
    if (!frame->is_object()) return fail(ErrorCode::kInvalid, "recipe: frame is no object");
    TRY(video.frame, controls_from_json(frame->get_object()));
  }
  std::optional<std::int64_t> frames;
  TRY_DO(read_number(from, "frames", 1, frames));
  if (!frames) return fail(ErrorCode::kInvalid, "recipe: a video without a number of frames");
  video.frames = *frames;
  TRY_DO(read_number(from, "total_pixels", 1, video.total_pixels));
  TRY(video.resized, json::get_bool_or(from, "resized", false));
  if (const json::value* fps = json::find(from, "fps")) {
    if (!fps->is_number()) return fail(ErrorCode::kInvalid, "recipe: fps is no number");
    video.fps = fps->to_number<double>();
    if (!std::isfinite(video.fps) || video.fps <= 0)
      return fail(ErrorCode::kInvalid, "recipe: fps is {}", video.fps);
  }
  return recipe;
}

Digest media_digest(std::span<const std::string> files, bool video) {
  if (!video) return sha256(files.front());
  Sha256 hash;
  hash.update("frames");
  for (const std::string& file : files) {
    const Digest one = sha256(file);
    hash.update(std::string_view(reinterpret_cast<const char*>(one.data()), one.size()));
  }
  return hash.finish();
}

Result<RebuiltImage> rebuild_image(const Processor& processor, std::string_view text,
                                   std::vector<std::string> files, const ImageLimits& limits,
                                   std::shared_ptr<const void> held) {
  TRY(const ImageRecipe recipe, read_image_recipe(text));
  const std::size_t most =
      recipe.video ? static_cast<std::size_t>(std::max(1, processor.shape().frames_per_grid)) : 1;
  if (files.empty() || files.size() > most)
    return fail(ErrorCode::kInvalid, "{} files, 1 to {} make an input", files.size(), most);
  RebuiltImage made;
  made.content = media_digest(files, recipe.video.has_value());
  int width = 0;
  int height = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    TRY(const auto header,
        probe_image({reinterpret_cast<const std::byte*>(files[i].data()), files[i].size()},
                    limits));
    if (i > 0 && (header.width != width || header.height != height))
      return fail(ErrorCode::kInvalid, "frames of {}x{} and {}x{} pixels", width, height,
                  header.width, header.height);
    width = header.width;
    height = header.height;
  }
  TRY(const ImageLayout whole, recipe.video ? processor.video_layout(width, height, *recipe.video)
                                            : processor.image_layout(width, height, recipe.image));
  made.layout = recipe.video ? group_layout(whole, static_cast<std::int64_t>(files.size())) : whole;
  std::vector<CompressedImage::Frame> frames;
  for (std::string& file : files) frames.push_back({std::move(file), "the image"});
  made.source = std::make_shared<CompressedImage>(processor, whole, std::move(frames), limits,
                                                  std::move(held), std::string(text));
  return made;
}

}  // namespace saccade
