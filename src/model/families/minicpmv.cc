// MiniCPM-V 4.6 (1.3B). Reference: transformers' models/minicpmv4_6; its line: arXiv:2408.01800.
//
// Five odd things:
//  - An image is shown whole and, where it is large, in up to nine slices, each a span of
//    embeddings between words of its own; the whole and the slices have sizes of their own.
//  - The tower is SigLIP's whose patches take the nearest of 70 x 70 learnt positions. It joins
//    2 x 2 patches a quarter of the way up, unless downsample_mode is 4x, and again at the end.
//  - The text is Qwen3.5's; images count tokens along one axis.
//  - Images of a request are numbered from 0 in the prompt, videos too.
//  - A video is a list of images, a second apart.
// The whole and the slices are encoded as if each were alone, which is what the model was trained
// with: transformers 5.17 joins patches by the first one's size, and refuses others.
#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/families/qwen3_5_decoder.h"
#include "model/family.h"
#include "model/images/image_processor.h"
#include "model/images/preprocessor_config.h"
#include "model/images/slice_images.h"
#include "model/prompts/placed_media.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/minicpmv_tower.h"
#include "model/videos/tile_videos.h"

namespace saccade {
namespace minicpmv {
namespace {

// --- configuration ---

constexpr NormalizeSettings kNormalize = {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
constexpr FrameChoice kOwnFrames = {
    .fps = {}, .num_frames = {}, .min_frames = 1, .max_frames = 128};

Result<DecoderConfig> parse_text(const json::object& config) {
  TRY(const json::object* text, config_section(config, "text_config"));
  TRY(const std::string type, json::get_string_or(*text, "model_type", "qwen3_5_text"));
  if (type != "qwen3_5_text")
    return fail(ErrorCode::kUnsupported, "text_config: model_type \"{}\"; qwen3_5_text is done",
                type);
  TRY(DecoderConfig decoder, parse_qwen3_5(config));
  // All axes of a position are its order.
  decoder.settings.rope.axis.clear();
  decoder.position_axes = 1;
  return decoder;
}

// A member that joins squares of 2 x 2, or is not there.
Result<void> require_pairs(const json::object& from, std::string_view name) {
  const json::value* found = json::find(from, name);
  if (found == nullptr || *found == json::value(json::array{2, 2})) return {};
  return fail(ErrorCode::kUnsupported, "{} is {}, [2, 2] is done", name,
              boost::json::serialize(*found));
}

// Tokens of a square of 4 x 4 patches.
Result<std::int64_t> read_downsample(const json::object& from) {
  TRY(const std::string mode, json::get_string_or(from, "downsample_mode", "16x"));
  if (mode == "16x") return 1;
  if (mode == "4x") return 4;
  return fail(ErrorCode::kUnsupported, "downsample_mode is \"{}\", 4x and 16x are done", mode);
}

Result<MiniCpmvTowerSettings> parse_vision(const json::object& config) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  MiniCpmvTowerSettings tower;
  TRY_DO(read_vit_extents(*vision, "vision_config", tower));
  TRY(const double epsilon, json::get_double_or(*vision, "layer_norm_eps", 1e-6));
  tower.norm.epsilon = static_cast<float>(epsilon);
  TRY(const std::string activation,
      json::get_string_or(*vision, "hidden_act", "gelu_pytorch_tanh"));
  TRY(tower.activation, parse_activation(activation));
  TRY_DO(require_pairs(*vision, "window_kernel_size"));
  TRY_DO(require_pairs(config, "merge_kernel_size"));
  // The model's own stands over that of vision_config, as in the reference's class.
  TRY(tower.joined_after, json::get_int_or(config, "insert_layer_id", 6));
  if (tower.joined_after < 0 || tower.joined_after >= tower.layers)
    return fail(ErrorCode::kUnsupported, "insert_layer_id is {}, of {} layers 0 to {} are possible",
                tower.joined_after, tower.layers, tower.layers - 1);
  TRY(const std::int64_t square_tokens, read_downsample(config));
  if (square_tokens > 1) tower.joined_after = -1;
  TRY(const std::int64_t times, json::get_int_or(config, "merger_times", 1));
  if (times != 1) return fail(ErrorCode::kUnsupported, "merger_times is {}, 1 is done", times);
  TRY(const bool dropped, json::get_bool_or(config, "drop_vision_last_layer", false));
  if (dropped) return fail(ErrorCode::kUnsupported, "drop_vision_last_layer true is not supported");
  return tower;
}

// What a preprocessor's configuration says of images, or of frames.
struct SliceProcessor {
  SliceSettings slices;
  NormalizeTable normalize;
  ResampleFilter filter;
  bool numbered;  // images have their numbers written before them
};

Result<SliceProcessor> parse_slices(const json::object& file, const MiniCpmvTowerSettings& tower) {
  TRY_DO(require_image_steps(file));
  SliceSettings slices;
  TRY(slices.square_tokens, read_downsample(file));
  if (slices.square_tokens != (tower.joins() ? 1 : 4))
    return fail(ErrorCode::kInvalid,
                "downsample_mode of the preprocessor's configuration is not that of config.json");
  std::int64_t scale = slices.scale;
  std::int64_t patch = slices.patch;
  const std::array fields = {ExtentField{"scale_resolution", &scale, 4096},
                             ExtentField{"patch_size", &patch, 256}};
  TRY_DO(read_extents(file, "the preprocessor's configuration", fields));
  if (patch != tower.patch)
    return fail(ErrorCode::kInvalid,
                "the preprocessor's configuration cuts patches of {}, vision_config of {}", patch,
                tower.patch);
  slices.scale = static_cast<int>(scale);
  slices.patch = static_cast<int>(patch);
  TRY(slices, read_slices(file, slices));
  TRY(const NormalizeTable normalize, parse_normalize(file, kNormalize));
  TRY(const ResampleFilter filter, parse_resample(file, ResampleFilter::kBicubic));
  TRY(const bool numbered, json::get_bool_or(file, "use_image_id", true));
  return SliceProcessor{slices, normalize, filter, numbered};
}

// --- prompts ---

constexpr std::string_view kImage = "<|image_pad|>";
constexpr std::string_view kVideo = "<|video_pad|>";
// Beginnings, so that a guarded placeholder is none for the search of placeholders.
constexpr std::array<std::string_view, 8> kLiterals = {"<|image_pad|", "<|video_pad|", "<image>",
                                                       "</image>",     "<slice>",      "</slice>",
                                                       "<image_id>",   "</image_id>"};

constexpr PlaceholderWords kWords = {.literals = kLiterals, .image = kImage, .video = kVideo};

class MiniCpmvProcessor final : public ImageProcessor {
 public:
  MiniCpmvProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                    std::unique_ptr<const VideoPipeline> videos,
                    const std::array<TokenId, 2>& tokens, const SliceSettings& slices,
                    bool numbered)
      : ImageProcessor(std::move(shape), kWords, std::move(images), std::move(videos)),
        tokens_(tokens),
        slices_(slices),
        numbered_(numbered) {}

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> media,
                              bool add_special_tokens) const override {
    int images = 0;
    int videos = 0;
    const auto write_image = [&](const ImageLayout& image, int input, PlacedMedia& to) {
      write_number(images++, to);
      write_tiles(image, image.tokens, kImage, input, to);
    };
    const auto write_video = [&](const ImageLayout& video, int input, PlacedMedia& to) {
      write_number(videos++, to);
      for (int frame = 0; frame < video.grid_t; ++frame)
        write_tiles(video, video.group_tokens, kVideo, input + frame, to);
    };
    TRY(const PlacedMedia placed, place_media(rendered, media,
                                              {.image = kImage,
                                               .video = kVideo,
                                               .write_image = write_image,
                                               .write_video = write_video}));
    return expand_pieces(encode_guarded(tokenizer, placed.text, add_special_tokens), tokens_,
                         placed.pieces);
  }

 private:
  void write_number(int number, PlacedMedia& to) const {
    if (numbered_) to.text += fmt::format("<image_id>{}</image_id>", number);
  }

  // The whole of an image or frame of `tokens` rows, then its slices, a line for each row of them.
  void write_tiles(const ImageLayout& image, std::int64_t tokens, std::string_view placeholder,
                   int input, PlacedMedia& to) const {
    const std::int64_t whole = std::int64_t{image.first_width / slices_.square()} *
                               (image.first_height / slices_.square()) * slices_.square_tokens;
    to.text += fmt::format("<image>{}</image>", placeholder);
    to.pieces.push_back({.tokens = whole, .index = input});
    const int slices = image.slices_across * image.slices_down;
    for (int slice = 0; slice < slices; ++slice) {
      if (slice > 0 && slice % image.slices_across == 0) to.text += '\n';
      to.text += fmt::format("<slice>{}</slice>", placeholder);
      const std::int64_t of_slice = (tokens - whole) / slices;
      to.pieces.push_back(
          {.tokens = of_slice, .index = input, .first_row = whole + slice * of_slice});
    }
  }

  std::array<TokenId, 2> tokens_;  // of images, of videos
  SliceSettings slices_;           // of images; frames have the same squares
  bool numbered_ = true;
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig text, parse_text(checkpoint.config));
  TRY(MiniCpmvTowerSettings tower, parse_vision(checkpoint.config));
  tower.out = text.settings.hidden;
  TRY(const TokenId image_token,
      media_token(checkpoint.config, {{"image_token_id"}}, text.settings.vocab));
  TRY(const TokenId video_token,
      media_token(checkpoint.config, {{"video_token_id"}}, text.settings.vocab));
  TRY(const SliceProcessor of_images, parse_slices(checkpoint.preprocessor, tower));
  const json::object& video_file = video_preprocessor(checkpoint);
  TRY(const SliceProcessor of_videos, parse_slices(video_file, tower));
  TRY(const FrameSampling frames,
      FrameSampling::parse(video_file, SamplingRule::kSeconds, 1, kOwnFrames));
  tower.max_squares =
      std::max(max_squares_of_slice(of_images.slices), max_squares_of_slice(of_videos.slices));
  TRY(ModelShape shape, describe_model("minicpm-v-4.6", checkpoint, text));
  auto images =
      std::make_unique<const SliceImages>(of_images.slices, of_images.normalize, of_images.filter);
  auto videos = std::make_unique<const SliceVideos>(of_videos.slices, frames, of_videos.normalize,
                                                    of_videos.filter);
  describe_images(*images, shape);
  shape.max_image_patches = std::max(shape.max_image_patches, videos->max_patches());
  shape.max_image_tokens =
      shape.max_image_patches / (kSquarePatches * kSquarePatches) * of_images.slices.square_tokens;
  shape.frames_per_grid = 1;
  auto processor = std::make_unique<MiniCpmvProcessor>(shape, std::move(images), std::move(videos),
                                                       std::array{image_token, video_token},
                                                       of_images.slices, of_images.numbered);
  return UnloadedModel{
      std::move(processor),
      make_network(std::move(shape), std::move(text.settings),
                   qwen3_5_names("model.language_model."), make_minicpmv_tower(tower))};
}

// --- what checkpoints call themselves ---

}  // namespace
}  // namespace minicpmv

extern const Family kMiniCpmv;
const Family kMiniCpmv = {.name = "minicpm-v-4.6",
                          .architectures = {"MiniCPMV4_6ForConditionalGeneration"},
                          .model_types = {"minicpmv4_6"},
                          .create = minicpmv::create};

}  // namespace saccade
