// LLaVA-OneVision (0.5B, 7B). Reference: transformers' models/llava_onevision; paper
// arXiv:2408.03326.
//
// Four odd things:
//  - An image is seen twice: whole in one tile of 384 x 384, and fitted into a grid of tiles
//    (anyres) whose shape is one of 36 pinpoints.
//  - The tiles' features are joined, those of padding are cut off, and what is more than nine
//  tiles'
//    is scaled down bilinearly: features, not pixels.
//  - A learnt newline follows each row of the joined features; the whole image's come first and
//    have none.
//  - A frame of a video is one tile whose features are halved in both directions; one newline
//    follows the last frame.
#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/images/anyres.h"
#include "model/images/image_processor.h"
#include "model/images/preprocessor_config.h"
#include "model/prompts/placed_media.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/tile_tower.h"
#include "model/videos/tile_videos.h"

namespace saccade {
namespace llava_onevision {
namespace {

// --- configuration ---

constexpr DecoderDefaults kTextDefaults = {.norm_epsilon = 1e-6,
                                           .rope_theta = 10000,
                                           .max_position = 32768,
                                           .sliding_window = 4096,
                                           .max_window_layers = 28,
                                           .tied_head = false,
                                           .tie_field = TieField::kEither};
constexpr NormalizeSettings kNormalize = {
    .mean = {0.48145466, 0.4578275, 0.40821073},
    .std = {0.26862954, 0.26130258, 0.27577711}};  // the class's; published files say 0.5

DecoderNames text_names() {
  return DecoderNames::under("language_model.model.", "language_model.lm_head");
}

// vision_feature_layer, one or a list: after how many of the tower's layers features are taken.
// Those after the last of them are stored and do not run.
Result<void> read_feature_layers(const json::object& config, TileTowerSettings& tower) {
  const auto add = [&](const json::value& layer) -> Result<void> {
    const std::int64_t states = tower.layers + 1;  // with what goes into the first layer
    if (!layer.is_int64())
      return fail(ErrorCode::kInvalid, "vision_feature_layer holds {}, a layer is required",
                  json::kind_name(layer));
    if (layer.get_int64() < -states || layer.get_int64() >= states)
      return fail(ErrorCode::kInvalid, "vision_feature_layer holds {} of a tower of {} layers",
                  layer.get_int64(), tower.layers);
    const std::int64_t index = layer.get_int64();
    tower.feature_layers.push_back(index < 0 ? states + index : index);
    return {};
  };
  const json::value* given = json::find(config, "vision_feature_layer");
  if (given == nullptr) return {};
  if (given->is_array()) {
    for (const json::value& layer : given->get_array()) TRY_DO(add(layer));
    if (tower.feature_layers.empty())
      return fail(ErrorCode::kInvalid, "vision_feature_layer is an empty list");
  } else {
    TRY_DO(add(*given));
  }
  const std::int64_t last = *std::ranges::max_element(tower.feature_layers);
  tower.unread_layers = tower.layers - last;
  tower.layers = last;
  if (tower.feature_layers == std::vector{last}) tower.feature_layers.clear();
  return {};
}

// "default" is for towers with a class token, which SigLIP's has not: transformers drops the first
// patch then, and fails where the patches no longer make a square.
Result<void> require_all_features(const json::object& config) {
  TRY(const std::string strategy,
      json::get_string_or(config, "vision_feature_select_strategy", "full"));
  if (strategy != "full")
    return fail(ErrorCode::kInvalid,
                "vision_feature_select_strategy \"{}\" leaves out the first patch of a tower that "
                "has no class token; \"full\" is possible",
                strategy);
  return {};
}

Result<AnyresSettings> parse_anyres(const Checkpoint& checkpoint, const TileTowerSettings& tower) {
  AnyresSettings anyres;
  TRY(anyres.tile, parse_square_size(checkpoint.preprocessor, static_cast<int>(tower.image)));
  if (anyres.tile != tower.image)
    return fail(ErrorCode::kInvalid,
                "preprocessor_config.json makes tiles of {} pixels, vision_config of {}",
                anyres.tile, tower.image);
  anyres.side = tower.side();
  TRY(anyres.pinpoints,
      parse_pinpoints(checkpoint.config, anyres.tile, every_pinpoint(anyres.tile)));
  TRY(const auto stated, parse_pinpoints(checkpoint.preprocessor, anyres.tile, anyres.pinpoints));
  if (stated != anyres.pinpoints)
    return fail(ErrorCode::kInvalid,
                "config.json and preprocessor_config.json differ in image_grid_pinpoints");
  TRY(const std::string ratio,
      json::get_string_or(checkpoint.config, "vision_aspect_ratio", "anyres_max_9"));
  constexpr std::string_view kAnyres = "anyres_max_";
  const bool digits = ratio.starts_with(kAnyres) && ratio.size() > kAnyres.size() &&
                      ratio.size() < kAnyres.size() + 4 &&
                      ratio.find_first_not_of("0123456789", kAnyres.size()) == std::string::npos;
  anyres.max_tiles = digits ? std::stoll(ratio.substr(kAnyres.size())) : 0;
  if (anyres.max_tiles < 1)
    return fail(ErrorCode::kUnsupported, "vision_aspect_ratio \"{}\" is not done", ratio);
  return anyres;
}

// --- videos ---

// Features a side of a frame, pooled.
std::int64_t pooled_side(std::int64_t side) { return (side + 1) / 2; }

// What the models were trained with (the paper's 32 frames): neither published files nor the
// reference say how many frames of a file are taken.
const FrameChoice kOwnFrames = {
    .fps = {}, .num_frames = 32, .min_frames = 1, .max_frames = kOwnMostFrames};

Result<std::unique_ptr<const TileVideos>> parse_videos(const Checkpoint& checkpoint,
                                                       const TileTowerSettings& tower) {
  const json::object& file = video_preprocessor(checkpoint);
  TRY_DO(require_image_steps(file));
  const auto image = static_cast<int>(tower.image);
  TileVideoSettings videos{.tile = image, .side = tower.side(), .name = "llava-onevision"};
  TRY(const int size, parse_square_size(file, image));
  TRY_DO(check_frame_size(size, image));
  videos.frame_tokens = pooled_side(videos.side) * pooled_side(videos.side);
  videos.closing_tokens = 1;
  videos.kwargs = {"image_grid_pinpoints"};
  TRY(videos.filter, parse_resample(file, ResampleFilter::kBicubic));
  TRY(const NormalizeTable normalize, parse_normalize(file, kNormalize));
  TRY(const FrameSampling sampling,
      FrameSampling::parse(file, SamplingRule::kSteps, 1, kOwnFrames));
  return std::make_unique<const TileVideos>(std::move(videos), sampling, tower, normalize);
}

// --- vision ---

class LlavaTower final : public TileTower {
 public:
  LlavaTower(TileTowerSettings tower, AnyresSettings anyres, Activation activation, Bias bias,
             std::int64_t out)
      : TileTower(std::move(tower)),
        anyres_(std::move(anyres)),
        activation_(activation),
        bias_(bias),
        out_(out) {}

 protected:
  void add_projector(WeightTable& table) override {
    table.linear(in_, "multi_modal_projector.linear_1", out_, settings().feature_width(), bias_);
    table.linear(to_text_, "multi_modal_projector.linear_2", out_, out_, bias_);
    table.bias(newline_, "image_newline", out_);
  }

  void add_projector_scratch(Scratch& scratch, DType type, std::int64_t patch_rows) override {
    scratch.add(projected_, type, patch_rows + 1, out_);
    scratch.add(slice_, type, kMlpRows, out_);
  }

  void project(WorkList& works, Stream& stream, const ImageLayout& layout, View features, View out,
               const Tap& tap) const override {
    works.add({.units = features.rows(),
               .unit_cost = row_cost(in_) + row_cost(to_text_),
               .run = [=, this, &stream](std::int64_t begin, std::int64_t end) {
                 for (; begin < end; begin += kMlpRows) {
                   const std::int64_t last = std::min(begin + kMlpRows, end);
                   const View inner = slice_.row_range(0, last - begin);
                   apply_linear(stream, in_, features.row_range(begin, last), inner, {},
                                activation_);
                   apply_linear(stream, to_text_, inner, projected_.row_range(begin, last));
                 }
               }});
    const auto newline = static_cast<std::int32_t>(features.rows());
    works.once([this, &stream, newline] {
      stream.copy(newline_.view, projected_.row_range(newline, newline + 1));
    });
    Sources sources = layout.frames > 0 ? pooled_sources(newline) : sources_of(layout, newline);
    works.add({.units = layout.tokens,
               .unit_cost = static_cast<double>(kTaps * out_) * 4,
               .run = [this, &stream, &tap, out, sources = std::move(sources)](std::int64_t begin,
                                                                               std::int64_t end) {
                 for (; begin < end; begin += kMlpRows)
                   mix(stream, sources, begin, std::min(begin + kMlpRows, end), out, tap);
               }});
  }

 private:
  static constexpr std::int64_t kTaps = 4;

  // Bilinear, corners not aligned, as torch's interpolate: one axis.
  struct Between {
    std::int64_t low = 0;
    std::int64_t high = 0;
    float weight = 0;  // of high
  };

  // Embedding row i is the sum of kTaps projected rows by their weights.
  struct Sources {
    std::int32_t newline = 0;  // the last projected row
    std::vector<std::int32_t> rows;
    std::vector<float> weights;

    void add(std::array<std::int32_t, 4> four, std::array<float, 4> by) {
      rows.insert(rows.end(), four.begin(), four.end());
      weights.insert(weights.end(), by.begin(), by.end());
    }
    void add(std::int32_t row) { add({row, row, row, row}, {1, 0, 0, 0}); }
    template <typename RowAt>
    void add_between(const Between& v, const Between& h, const RowAt& row_at) {
      add({row_at(v.low, h.low), row_at(v.low, h.high), row_at(v.high, h.low),
           row_at(v.high, h.high)},
          {(1 - v.weight) * (1 - h.weight), (1 - v.weight) * h.weight, v.weight * (1 - h.weight),
           v.weight * h.weight});
    }
  };

  // Embedding rows [begin, end) of projected rows, behind the last of which stands the newline.
  void mix(Stream& stream, const Sources& sources, std::int64_t begin, std::int64_t end, View out,
           const Tap& tap) const {
    const auto first = static_cast<std::size_t>(begin * kTaps);
    const auto count = static_cast<std::size_t>((end - begin) * kTaps);
    const View part = slice_.row_range(0, end - begin);
    stream.mix_rows({.x = projected_.row_range(0, sources.newline + 1),
                     .rows = stream.upload(std::span(sources.rows).subspan(first, count)),
                     .weights = stream.upload(std::span(sources.weights).subspan(first, count)),
                     .taps = kTaps,
                     .out = part});
    stream.copy(part, out.row_range(begin, end));
    show(tap, stream, "vision.merged", part);
  }

  // Where a feature of the joined tiles stands among the projected rows: whole image first.
  std::int32_t row_of(const AnyresFeatures& f, std::int64_t y, std::int64_t x) const {
    const std::int64_t side = settings().side();
    const std::int64_t row = f.top + y;
    const std::int64_t column = f.left + x;
    const std::int64_t tile = 1 + row / side * (f.across / side) + column / side;
    return static_cast<std::int32_t>(tile * side * side + row % side * side + column % side);
  }

  static Between between(std::int64_t index, std::int64_t from, std::int64_t to) {
    const float scale = static_cast<float>(from) / static_cast<float>(to);
    const float at = std::max(scale * (static_cast<float>(index) + 0.5f) - 0.5f, 0.0f);
    Between b;
    b.low = std::min(static_cast<std::int64_t>(at), from - 1);
    b.high = std::min(b.low + 1, from - 1);
    b.weight = at - static_cast<float>(b.low);
    return b;
  }

  Sources sources_of(const ImageLayout& layout, std::int32_t newline) const {
    const AnyresFeatures f = anyres_features(
        {layout.height, layout.width}, {layout.resized_height, layout.resized_width}, anyres_);
    Sources sources{newline, {}, {}};
    for (std::int64_t i = 0; i < settings().patches(); ++i)
      sources.add(static_cast<std::int32_t>(i));
    const bool scaled = f.out_rows != f.rows || f.out_columns != f.columns;
    for (std::int64_t y = 0; y < f.out_rows; ++y) {
      for (std::int64_t x = 0; x < f.out_columns; ++x) {
        if (!scaled) {
          sources.add(row_of(f, y, x));
          continue;
        }
        sources.add_between(
            between(y, f.rows, f.out_rows), between(x, f.columns, f.out_columns),
            [&](std::int64_t row, std::int64_t column) { return row_of(f, row, column); });
      }
      sources.add(newline);
    }
    return sources;
  }

  // Of a frame: a fourth of its features, then the newline, which a prompt has once a video.
  Sources pooled_sources(std::int32_t newline) const {
    const std::int64_t side = settings().side();
    const std::int64_t out = pooled_side(side);
    Sources sources{newline, {}, {}};
    for (std::int64_t y = 0; y < out; ++y) {
      for (std::int64_t x = 0; x < out; ++x)
        sources.add_between(between(y, side, out), between(x, side, out),
                            [side](std::int64_t row, std::int64_t column) {
                              return static_cast<std::int32_t>(row * side + column);
                            });
    }
    sources.add(newline);
    return sources;
  }

  AnyresSettings anyres_;
  Activation activation_;
  Bias bias_;  // of the projector
  std::int64_t out_;
  Linear in_;
  Linear to_text_;
  VectorWeight newline_;
  View projected_;  // [patch rows + 1, text width]: the newline stands last
  View slice_;      // [kMlpRows, text width]
};

// --- the model ---

constexpr std::array<std::string_view, 2> kPlaceholders = {"<image>", "<video>"};
// Beginnings: a guarded "<image" is not followed by ">" for the search of placeholders.
constexpr std::array<std::string_view, 2> kLiterals = {"<image", "<video"};

constexpr PlaceholderWords kWords = {
    .literals = kLiterals, .image = "<image>\n", .video = "<video>\n"};

class LlavaProcessor final : public ImageProcessor {
 public:
  LlavaProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                 std::unique_ptr<const VideoPipeline> videos, TokenId image_token,
                 TokenId video_token)
      : ImageProcessor(std::move(shape), kWords, std::move(images), std::move(videos)),
        tokens_{image_token, video_token} {}

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> media,
                              bool add_special_tokens) const override {
    const auto [image, video] = kPlaceholders;
    TRY(const PlacedMedia placed,
        place_media(rendered, media,
                    {.image = image,
                     .video = video,
                     .write_image =
                         [image](const ImageLayout& layout, int input, PlacedMedia& to) {
                           to.text += image;
                           to.pieces.push_back({.tokens = layout.tokens, .index = input});
                         },
                     .write_video = write_video}));
    return expand_pieces(encode_guarded(tokenizer, placed.text, add_special_tokens), tokens_,
                         placed.pieces);
  }

 private:
  // A placeholder a frame; the last one has the newline too.
  static void write_video(const ImageLayout& video, int input, PlacedMedia& to) {
    for (int frame = 0; frame < video.grid_t; ++frame) {
      const bool last = frame + 1 == video.grid_t;
      to.text += kPlaceholders[1];
      to.pieces.push_back({.tokens = video.group_tokens - (last ? 0 : 1), .index = input + frame});
    }
  }

  std::array<TokenId, 2> tokens_;  // as kPlaceholders
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig text, parse_decoder(checkpoint.config, kTextDefaults));
  text.settings.qkv_bias = true;
  TRY(TileTowerSettings tower, parse_siglip(checkpoint.config));
  tower.post_norm = false;
  TRY_DO(require_all_features(checkpoint.config));
  TRY_DO(read_feature_layers(checkpoint.config, tower));
  TRY(const bool bias, json::get_bool_or(checkpoint.config, "multimodal_projector_bias", true));
  TRY(const std::string activation,
      json::get_string_or(checkpoint.config, "projector_hidden_act", "gelu"));
  TRY(const Activation act, parse_activation(activation));
  TRY(AnyresSettings anyres, parse_anyres(checkpoint, tower));
  TRY_DO(require_image_steps(checkpoint.preprocessor));
  TRY(const NormalizeTable normalize, parse_normalize(checkpoint.preprocessor, kNormalize));
  TRY(const ResampleFilter filter,
      parse_resample(checkpoint.preprocessor, ResampleFilter::kBicubic));
  TRY(const TokenId image_token,
      media_token(checkpoint.config, {{"image_token_index", "image_token_id"}, 151646, true},
                  text.settings.vocab));
  TRY(const TokenId video_token,
      media_token(checkpoint.config, {{"video_token_index", "video_token_id"}, 151647, true},
                  text.settings.vocab));
  const std::int64_t hidden = text.settings.hidden;
  TRY(ModelShape shape, describe_model("llava-onevision", checkpoint, text));
  auto images = std::make_unique<const AnyresImages>(anyres, tower, normalize, filter);
  describe_images(*images, shape);
  TRY(std::unique_ptr<const TileVideos> videos, parse_videos(checkpoint, tower));
  shape.frames_per_grid = 1;
  return UnloadedModel{
      std::make_unique<LlavaProcessor>(shape, std::move(images), std::move(videos), image_token,
                                       video_token),
      make_network(
          std::move(shape), std::move(text.settings), text_names(),
          std::make_unique<LlavaTower>(tower, anyres, act, bias ? Bias::kYes : Bias::kNo, hidden))};
}

// --- what checkpoints call themselves ---

constexpr auto kAliases = siglip_aliases({"lm_head.", "language_model.lm_head."});

}  // namespace
}  // namespace llava_onevision

extern const Family kLlavaOnevision;
const Family kLlavaOnevision = {.name = "llava-onevision",
                                .architectures = {"LlavaOnevisionForConditionalGeneration"},
                                .model_types = {"llava_onevision"},
                                .aliases = llava_onevision::kAliases,
                                .create = llava_onevision::create};

}  // namespace saccade
