// SmolVLM2 (256M, 500M, 2.2B). Reference: transformers' models/smolvlm; report arXiv:2504.05299.
//
// Four odd things:
//  - An image is resized twice: its longer side to a fixed length, then both to whole tiles, its
//    aspect lost a little. After the tiles comes the whole of it as one more.
//  - Each tile is s x s times fewer tokens than patches (pixel shuffle), and each has its row and
//    column written before it: an image is many spans of embeddings with text between.
//  - The tower is SigLIP's with its norm at the end; its positions come from fractions of the tile,
//    which for a whole tile of a published size are those of a row-by-row count.
//  - A video is text: how many frames of how long a film, in words, then each frame's time and the
//    frame as one tile.
#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <utility>

#include "image/smart_resize.h"
#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/families/known_templates.h"
#include "model/family.h"
#include "model/images/image_processor.h"
#include "model/images/preprocessor_config.h"
#include "model/prompts/placed_media.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/position_grid.h"
#include "model/towers/tile_tower.h"
#include "model/videos/tile_videos.h"
#include "text/unicode/number_words.h"

namespace saccade {

const std::string_view kSmolVlm2Template =
    R"(<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}{% elif line['type'] == 'image' %}{{ '<image>' }}{% elif line['type'] == 'video' %}{{ '<video>' }}{% endif %}{% endfor %}<end_of_utterance>
{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})";

namespace smolvlm2 {
namespace {

// What the first published files' templates lack; the reference's processor then takes this one.
constexpr std::string_view kVideoBranch = "{% elif line['type'] == 'video' %}{{ '<video>' }}";

// --- configuration ---

constexpr DecoderDefaults kTextDefaults = {
    .norm_epsilon = 1e-6, .rope_theta = 10000, .max_position = 2048, .tied_head = false};
constexpr NormalizeSettings kNormalize = {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
constexpr int kMaxSide = 4096;    // of an image before it is cut
constexpr int kMaxPatches = 128;  // a side of a tile

Result<DecoderConfig> parse_text(const json::object& config) {
  TRY(const json::object* text, config_section(config, "text_config"));
  TRY(const std::string type, json::get_string_or(*text, "model_type", "llama"));
  if (type != "llama")
    return fail(ErrorCode::kUnsupported, "text_config: model_type \"{}\"; llama is done", type);
  TRY(DecoderConfig decoder, parse_decoder(config, kTextDefaults));
  TRY_DO(read_biases(*text, decoder.settings));
  return decoder;
}

Result<TileTowerSettings> parse_vision(const json::object& config) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  TileTowerSettings tower;
  tower.width = 1152;
  tower.heads = 16;
  tower.patch = 32;
  TRY_DO(read_vit_extents(*vision, "vision_config", tower));
  if (tower.image > kMaxSide || tower.side() > kMaxPatches)
    return fail(ErrorCode::kUnsupported,
                "vision_config: patches of {} in {} pixels; up to {} pixels and {} patches a side "
                "are done",
                tower.patch, tower.image, kMaxSide, kMaxPatches);
  tower.position_rows = bucketed_positions(tower.side());
  TRY(const double epsilon, json::get_double_or(*vision, "layer_norm_eps", 1e-6));
  tower.norm.epsilon = static_cast<float>(epsilon);
  TRY(const std::string activation,
      json::get_string_or(*vision, "hidden_act", "gelu_pytorch_tanh"));
  TRY(tower.activation, parse_activation(activation));
  tower.prefix = "model.vision_model.";
  return tower;
}

// --- images ---

constexpr std::array<std::string_view, 3> kKwargs = {"size", "max_image_size",
                                                     "do_image_splitting"};

struct SplitSettings {
  int longest = 1456;  // pixels of the longer side
  int tile = 364;
  bool split = true;
  std::int64_t tile_tokens = 81;
};

// size.longest_edge, max_image_size.longest_edge and do_image_splitting of a preprocessor
// configuration or of mm_processor_kwargs over `settings`.
Result<SplitSettings> read_split(const json::object& from, SplitSettings settings) {
  TRY(settings.longest, parse_longest_edge(from, "size", settings.longest));
  TRY(const int tile, parse_longest_edge(from, "max_image_size", settings.tile));
  TRY(settings.split, json::get_bool_or(from, "do_image_splitting", settings.split));
  if (tile != settings.tile)
    return fail(ErrorCode::kInvalid,
                "max_image_size.longest_edge is {}, the tower takes tiles of {} pixels", tile,
                settings.tile);
  return settings;
}

struct SplitExtents {
  int first_width = 0;  // after the first resizing
  int first_height = 0;
  int across = 0;  // tiles; 0 x 0: the image is one tile
  int down = 0;
  int tiles() const { return across * down + 1; }
};

int whole_tiles(int side, int tile) { return (side + tile - 1) / tile; }

SplitExtents split_extents(int width, int height, const SplitSettings& settings) {
  SplitExtents split;
  const ImageSize first = fit_longest(height, width, settings.longest);
  split.first_width = first.width;
  split.first_height = first.height;
  if (!settings.split) return split;

  const double second = static_cast<double>(split.first_width) / split.first_height;
  const int tile = settings.tile;
  if (split.first_width >= split.first_height) {
    split.across = whole_tiles(split.first_width, tile);
    split.down = whole_tiles(static_cast<int>(split.across * tile / second), tile);
  } else {
    split.down = whole_tiles(split.first_height, tile);
    split.across = whole_tiles(static_cast<int>(split.down * tile * second), tile);
  }
  if (split.across * split.down <= 1) split.across = split.down = 0;
  return split;
}

class SplitImages final : public ImagePipeline {
 public:
  SplitImages(SplitSettings settings, TileTowerSettings tower, const NormalizeTable& normalize,
              ResampleFilter filter)
      : ImagePipeline(std::make_shared<TileRows>(tower, normalize), filter),
        settings_(settings),
        tower_(std::move(tower)) {}

  // max_pixels and max_tokens shorten the longer side by whole tiles, to one tile at the least.
  // (min_pixels has nothing to do: every image is as large as its longer side lets it be.)
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override {
    TRY(SplitSettings settings, under(controls));
    SplitExtents split = split_extents(width, height, settings);
    const auto too_large = [&] {
      const std::int64_t pixels = std::int64_t{std::max(split.across, 1)} *
                                  std::max(split.down, 1) * settings.tile * settings.tile;
      return (controls.max_pixels && pixels > *controls.max_pixels) ||
             (controls.max_tokens && split.tiles() * settings.tile_tokens > *controls.max_tokens);
    };
    while (too_large() && settings.longest > settings.tile) {
      settings.longest = (whole_tiles(settings.longest, settings.tile) - 1) * settings.tile;
      split = split_extents(width, height, settings);
    }
    ImageLayout layout;
    layout.width = width;
    layout.height = height;
    layout.first_width = split.first_width;
    layout.first_height = split.first_height;
    layout.resized_width = std::max(split.across, 1) * settings.tile;
    layout.resized_height = std::max(split.down, 1) * settings.tile;
    layout.grid_t = split.tiles();
    layout.grid_h = layout.grid_w = tower_.side();
    layout.tokens = split.tiles() * settings.tile_tokens;
    layout.key = fmt::format("{}x{} {}x{}", split.first_width, split.first_height,
                             layout.resized_width, layout.resized_height);
    return layout;
  }

  // Tiles below each other, the whole image last.
  Pixels resized(const Pixels& pixels, const ImageLayout& layout,
                 const Cancelled& cancelled) const override;

  std::int64_t max_patches() const override { return max_tiles() * tower_.patches(); }
  std::int64_t max_tokens() const override { return max_tiles() * settings_.tile_tokens; }

 private:
  Result<SplitSettings> under(const ImageControls& controls) const {
    TRY_DO(check_processor_kwargs(controls, kKwargs));
    return of_processor_kwargs(read_split(controls.processor_kwargs, settings_));
  }
  std::int64_t max_tiles() const {
    // A square's second side is made even, too.
    const std::int64_t side =
        whole_tiles(settings_.longest + settings_.longest % 2, settings_.tile);
    return settings_.split ? side * side + 1 : 1;
  }

  SplitSettings settings_;
  TileTowerSettings tower_;
};

Pixels SplitImages::resized(const Pixels& pixels, const ImageLayout& layout,
                            const Cancelled& cancelled) const {
  const int tile = settings_.tile;
  const Pixels first = resize(pixels, layout.first_width, layout.first_height, filter(), cancelled);
  const Pixels second = ImagePipeline::resized(first, layout, cancelled);
  if (layout.grid_t == 1) return second;
  Pixels stacked{tile, 0, {}};
  append_tiles(second, stacked);
  append_tiles(resize(second, tile, tile, filter(), cancelled), stacked);
  return stacked;
}

// --- videos ---

// What published files say under video_sampling, for those that say nothing.
const FrameChoice kOwnFrames = {
    .fps = 1, .num_frames = 64, .min_frames = 1, .max_frames = kOwnMostFrames};

// `size` of the file itself stands over that of video_sampling, as in the reference's class.
Result<std::unique_ptr<const TileVideos>> parse_videos(const Checkpoint& checkpoint,
                                                       const TileTowerSettings& tower,
                                                       std::int64_t tile_tokens) {
  const json::object& file = video_preprocessor(checkpoint);
  TRY_DO(require_image_steps(file));
  const auto image = static_cast<int>(tower.image);
  TileVideoSettings videos{.tile = image,
                           .longest = 4 * image,
                           .side = tower.side(),
                           .frame_tokens = tile_tokens,
                           .name = "smolvlm2",
                           .kwargs = {kKwargs.begin(), kKwargs.end()}};
  FrameChoice own = kOwnFrames;
  const json::value* sampling = json::find(file, "video_sampling");
  if (sampling != nullptr && !sampling->is_object())
    return fail(ErrorCode::kInvalid, "video_sampling is {}, an object is required",
                json::kind_name(*sampling));
  if (sampling != nullptr) {
    const json::object& said = sampling->get_object();
    TRY(own.fps, json::get_double_or(said, "fps", *own.fps));
    TRY(own.num_frames, json::get_int_or(said, "max_frames", *own.num_frames));
    TRY(videos.longest, parse_longest_edge(said, "video_size", videos.longest));
  }
  TRY(videos.longest, parse_longest_edge(file, "size", videos.longest));
  TRY(const int tile, parse_longest_edge(file, "max_image_size", image));
  TRY_DO(check_frame_size(tile, image));
  TRY(videos.filter, parse_resample(file, ResampleFilter::kLanczos));
  TRY(const NormalizeTable normalize, parse_normalize(file, kNormalize));
  TRY(const FrameSampling frames, FrameSampling::parse(file, SamplingRule::kInner, 1, own));
  return std::make_unique<const TileVideos>(std::move(videos), frames, tower, normalize);
}

// --- vision ---

class SmolTower final : public TileTower {
 public:
  SmolTower(TileTowerSettings tower, std::int64_t factor, std::int64_t out)
      : TileTower(std::move(tower)), factor_(factor), out_(out) {}

 protected:
  void add_projector(WeightTable& table) override {
    table.linear(to_text_, "model.connector.modality_projection.proj", out_, shuffled_width(),
                 Bias::kNo);
  }
  void add_projector_scratch(Scratch& scratch, DType type, std::int64_t) override {
    scratch.add(shuffled_, type, kMlpRows, shuffled_width());
    scratch.add(projected_, type, kMlpRows, out_);
  }

  void project(WorkList& works, Stream& stream, const ImageLayout& layout, View features, View out,
               const Tap& tap) const override {
    works.add({.units = layout.tokens,
               .unit_cost = row_cost(to_text_),
               .run = [=, this, &stream, &tap](std::int64_t begin, std::int64_t end) {
                 for (; begin < end; begin += kMlpRows) {
                   const std::int64_t last = std::min(begin + kMlpRows, end);
                   const View shuffled = shuffled_.row_range(0, last - begin);
                   const View part = projected_.row_range(0, last - begin);
                   shuffle(stream, features, begin, shuffled);
                   apply_linear(stream, to_text_, shuffled, part);
                   stream.copy(part, out.row_range(begin, last));
                   show(tap, stream, "vision.merged", part);
                 }
               }});
  }

 private:
  // Squares of factor x factor features side by side, row by row, tile after tile: `out` has those
  // from `first` on.
  void shuffle(Stream& stream, View features, std::int64_t first, View out) const {
    const std::int64_t side = settings().side();
    const std::int64_t width = settings().width;
    const std::int64_t squares = side / factor_;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(out.rows()));
    for (std::int64_t piece = 0; piece < factor_ * factor_; ++piece) {
      for (std::int64_t i = first; i < first + out.rows(); ++i) {
        const std::int64_t tile = i / (squares * squares);
        const std::int64_t y = i / squares % squares * factor_ + piece / factor_;
        const std::int64_t x = i % squares * factor_ + piece % factor_;
        rows[static_cast<std::size_t>(i - first)] =
            static_cast<std::int32_t>((tile * side + y) * side + x);
      }
      stream.mix_rows({.x = features,
                       .rows = stream.upload(rows),
                       .weights = {},
                       .out = out.col_range(piece * width, (piece + 1) * width)});
    }
  }
  std::int64_t shuffled_width() const { return settings().width * factor_ * factor_; }

  std::int64_t factor_;
  std::int64_t out_;
  Linear to_text_;
  View shuffled_;   // [kMlpRows, width * factor^2]
  View projected_;  // [kMlpRows, text width]
};

// --- prompts ---

constexpr std::string_view kImage = "<image>";
constexpr std::string_view kVideo = "<video>";
constexpr std::string_view kFake = "<fake_token_around_image>";
// Beginnings: a guarded "<image" is not followed by ">" for the search of placeholders.
constexpr std::array<std::string_view, 5> kLiterals = {"<image", "<fake_token_around_image",
                                                       "<global-img", "<row_", "<video"};

// What is written for an image, one <image> a tile.
std::string image_text(const ImageLayout& layout, int tile) {
  std::string text;
  const int down = layout.grid_t == 1 ? 0 : layout.resized_height / tile;
  const int across = layout.grid_t == 1 ? 0 : layout.resized_width / tile;
  for (int row = 1; row <= down; ++row) {
    for (int column = 1; column <= across; ++column)
      text += fmt::format("{}<row_{}_col_{}>{}", kFake, row, column, kImage);
    text += '\n';
  }
  if (down > 0) text += '\n';
  return text + fmt::format("{0}<global-img>{1}{0}", kFake, kImage);
}

constexpr std::int64_t kDay = 24 * 3600;

// As Python's str(timedelta(seconds)).
std::string duration_text(std::int64_t seconds) {
  const std::int64_t days = seconds / kDay;
  std::string text;
  if (days > 0) text = fmt::format("{} {}, ", days, days == 1 ? "day" : "days");
  return text +
         fmt::format("{}:{:02}:{:02}", seconds % kDay / 3600, seconds / 60 % 60, seconds % 60);
}

// What is written for a video, one <image> a frame. A list of frames is as long as its last frame's
// time.
std::string video_text(const ImageLayout& video) {
  const auto second = [&video](std::int64_t frame) {
    return static_cast<std::int64_t>(video.seconds.empty()
                                         ? static_cast<double>(frame) / video.fps
                                         : video.seconds[static_cast<std::size_t>(frame)]);
  };
  const std::int64_t length =
      video.duration > 0 ? static_cast<std::int64_t>(video.duration) : second(video.frames - 1);
  std::string text =
      fmt::format("You are provided the following series of {} frames from a {} [H:MM:SS] video.\n",
                  number_words(video.frames), duration_text(length));
  for (std::int64_t frame = 0; frame < video.frames; ++frame) {
    const std::int64_t at = second(frame);
    text += fmt::format("\nFrame from {:02}:{:02}:{}<global-img>{}{}", at / 60, at % 60, kFake,
                        kImage, kFake);
  }
  return text + "\n\n";
}

const PlaceholderWords kWords = {
    .literals = kLiterals, .image = kImage, .video = kVideo, .chat_template = kSmolVlm2Template};

class SmolProcessor final : public ImageProcessor {
 public:
  // Tiles of `tile` pixels a side, each of `tile_tokens` rows.
  SmolProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                std::unique_ptr<const VideoPipeline> videos, TokenId image_token, int tile,
                std::int64_t tile_tokens)
      : ImageProcessor(std::move(shape), kWords, std::move(images), std::move(videos)),
        image_token_(image_token),
        tile_(tile),
        tile_tokens_(tile_tokens) {}

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> media,
                              bool add_special_tokens) const override {
    // Each image token stands for the rows of one tile.
    const auto write_image = [this](const ImageLayout& image, int input, PlacedMedia& to) {
      to.text += image_text(image, tile_);
      for (std::int64_t row = 0; row < image.tokens; row += tile_tokens_)
        to.pieces.push_back({.tokens = tile_tokens_, .index = input, .first_row = row});
    };
    const auto write_video = [this](const ImageLayout& video, int input, PlacedMedia& to) {
      to.text += video_text(video);
      for (int frame = 0; frame < video.grid_t; ++frame)
        to.pieces.push_back({.tokens = tile_tokens_, .index = input + frame});
    };
    TRY(const PlacedMedia placed, place_media(rendered, media,
                                              {.image = kImage,
                                               .video = kVideo,
                                               .write_image = write_image,
                                               .write_video = write_video}));
    return expand_pieces(encode_guarded(tokenizer, placed.text, add_special_tokens),
                         std::array{image_token_}, placed.pieces);
  }
  std::string chat_template_for(std::string shipped) const override {
    std::string images_alone(kSmolVlm2Template);
    images_alone.erase(images_alone.find(kVideoBranch), kVideoBranch.size());
    return shipped == images_alone ? std::string(kSmolVlm2Template) : shipped;
  }

 private:
  TokenId image_token_ = 0;
  int tile_ = 0;
  std::int64_t tile_tokens_ = 0;
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig text, parse_text(checkpoint.config));
  TRY(TileTowerSettings tower, parse_vision(checkpoint.config));
  TRY(const std::int64_t factor, json::get_int_or(checkpoint.config, "scale_factor", 2));
  if (factor < 1 || factor > tower.side() || tower.side() % factor != 0)
    return fail(ErrorCode::kUnsupported, "scale_factor {} of {} patches a side is not done", factor,
                tower.side());
  TRY_DO(require_image_steps(checkpoint.preprocessor));
  const auto image = static_cast<int>(tower.image);
  TRY(SplitSettings split,
      read_split(checkpoint.preprocessor, {.longest = 4 * image, .tile = image}));
  split.tile_tokens = tower.patches() / (factor * factor);
  TRY(const NormalizeTable normalize, parse_normalize(checkpoint.preprocessor, kNormalize));
  TRY(const ResampleFilter filter,
      parse_resample(checkpoint.preprocessor, ResampleFilter::kLanczos));
  TRY(const TokenId token,
      media_token(checkpoint.config, {{"image_token_id"}, 128257}, text.settings.vocab));
  const std::int64_t hidden = text.settings.hidden;
  TRY(ModelShape shape, describe_model("smolvlm2", checkpoint, text));
  auto images = std::make_unique<const SplitImages>(split, tower, normalize, filter);
  describe_images(*images, shape);
  TRY(std::unique_ptr<const TileVideos> videos, parse_videos(checkpoint, tower, split.tile_tokens));
  shape.frames_per_grid = 1;
  return UnloadedModel{std::make_unique<SmolProcessor>(shape, std::move(images), std::move(videos),
                                                       token, image, split.tile_tokens),
                       make_network(std::move(shape), std::move(text.settings),
                                    DecoderNames::under("model.text_model."),
                                    std::make_unique<SmolTower>(tower, factor, hidden))};
}

// --- what checkpoints call themselves ---

}  // namespace
}  // namespace smolvlm2

extern const Family kSmolVlm2;
const Family kSmolVlm2 = {.name = "smolvlm2",
                          .architectures = {"SmolVLMForConditionalGeneration"},
                          .model_types = {"smolvlm"},
                          .create = smolvlm2::create};

}  // namespace saccade
