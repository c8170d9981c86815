// Phi-3-vision-128k-instruct and Phi-3.5-vision-instruct (4B). Reference: the code published with
// the checkpoints, processing_phi3_v.py, image_embedding_phi3_v.py and modeling_phi3_v.py; paper
// arXiv:2404.14219.
//
// Four odd things:
//  - HD transform: an image lies on its longer side, becomes as many tiles wide as leave it within
//    num_crops tiles, is padded with white to whole tiles, and is turned back.
//  - The whole image, last in the prompt, is made from the normalised tiles, not from the original:
//    bicubically, without antialiasing, in floating point.
//  - Text before, between and after images is tokenised in parts, each with a <s> of its own.
//  - LongRoPE: a sequence of more than 4096 tokens turns all its tokens by other angles.
#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <utility>

#include "base/check.h"
#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/families/phi3_decoder.h"
#include "model/family.h"
#include "model/images/hd_images.h"
#include "model/images/image_processor.h"
#include "model/images/preprocessor_config.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/tile_tower.h"

namespace saccade {
namespace phi_3_vision {
namespace {

// --- configuration ---

constexpr std::int64_t kClipLayers = 24;
constexpr std::int64_t kMaxTile = 1 << 12;  // pixels a side

// OpenAI's CLIP ViT-L/14 at 336 pixels, which published files name and do not describe. Files that
// describe another say so in img_processor, with CLIPVisionConfig's fields.
Result<TileTowerSettings> parse_clip(const json::object& config) {
  TRY(const json::object* processor, config_section(config, "img_processor"));
  TRY(const std::string name, json::get_string_or(*processor, "name", "clip_vision_model"));
  if (name != "clip_vision_model")
    return fail(ErrorCode::kUnsupported, "img_processor.name \"{}\" is not done", name);
  TileTowerSettings tower;
  tower.width = 1024;
  tower.layers = kClipLayers;
  tower.heads = 16;
  tower.inner = 4096;
  tower.image = 336;
  tower.patch = 14;
  TRY_DO(read_vit_extents(*processor, "img_processor", tower));
  std::int64_t width = tower.width;
  std::int64_t tokens = (tower.side() / 2) * (tower.side() / 2);
  const std::array stated = {ExtentField{"image_dim_out", &width, 1 << 16},
                             ExtentField{"num_img_tokens", &tokens, 1 << 16}};
  TRY_DO(read_extents(*processor, "img_processor", stated));
  if (tower.image > kMaxTile || tower.image % tower.patch != 0 || tower.side() % 2 != 0 ||
      width != tower.width || tokens != (tower.side() / 2) * (tower.side() / 2))
    return fail(ErrorCode::kUnsupported,
                "img_processor: width {}, image_dim_out {}, patches of {} in {} pixels, of {} at "
                "most, num_img_tokens {}",
                tower.width, width, tower.patch, tower.image, kMaxTile, tokens);
  TRY(const std::int64_t layer, json::get_int_or(*processor, "layer_idx", -2));
  if (layer >= 0 || -layer > tower.layers)
    return fail(ErrorCode::kUnsupported, "img_processor.layer_idx {} of {} layers is not done",
                layer, tower.layers);
  TRY(const std::string feature, json::get_string_or(*processor, "type_feature", "patch"));
  if (feature != "patch")
    return fail(ErrorCode::kUnsupported, "img_processor.type_feature \"{}\" is not done", feature);
  tower.unread_layers = -layer - 1;
  tower.layers -= tower.unread_layers;
  tower.norm.epsilon = 1e-5f;
  tower.activation = Activation::kQuickGelu;
  tower.class_token = true;
  tower.patch_bias = false;
  tower.pre_norm = true;
  tower.post_norm = false;
  tower.prefix = "model.vision_embed_tokens.img_processor.vision_model.";
  return tower;
}

Result<void> refuse_other_embeddings(const json::object& config) {
  TRY(const json::object* layer, config_section(config, "embd_layer"));
  TRY(const std::string order, json::get_string_or(*layer, "hd_transform_order", "glb_sub"));
  TRY(const std::string projection, json::get_string_or(*layer, "projection_cls", "linear"));
  TRY(const bool transform, json::get_bool_or(*layer, "use_hd_transform", false));
  TRY(const bool separator, json::get_bool_or(*layer, "with_learnable_separator", false));
  if (order != "sub_glb" || projection != "mlp" || !transform || !separator)
    return fail(
        ErrorCode::kUnsupported,
        "embd_layer: hd_transform_order \"{}\", projection_cls \"{}\", use_hd_transform {}, "
        "with_learnable_separator {}; sub_glb, mlp, true and true are done",
        order, projection, transform, separator);
  return {};
}

// --- vision ---

class Phi3VisionTower final : public TileTower {
 public:
  Phi3VisionTower(TileTowerSettings tower, std::int64_t out)
      : TileTower(std::move(tower)), merged_width_(4 * settings().width), out_(out) {}

 protected:
  void add_projector(WeightTable& table) override {
    const std::string at = "model.vision_embed_tokens.";
    table.bias(view_separator_, at + "glb_GN", std::vector<std::int64_t>{1, 1, merged_width_});
    table.bias(row_separator_, at + "sub_GN", std::vector<std::int64_t>{1, 1, 1, merged_width_});
    table.linear(in_, at + "img_projection.0", out_, merged_width_, Bias::kYes);
    table.linear(to_text_, at + "img_projection.2", out_, out_, Bias::kYes);
  }

  void add_projector_scratch(Scratch& scratch, DType type, std::int64_t) override {
    scratch.add(merged_, type, kMlpRows, merged_width_);
    scratch.add(inner_, type, kMlpRows, out_);
    scratch.add(projected_, type, kMlpRows, out_);
  }

  void project(WorkList& works, Stream& stream, const ImageLayout& layout, View features, View out,
               const Tap& tap) const override {
    works.add({.units = layout.tokens,
               .unit_cost = row_cost(in_) + row_cost(to_text_),
               .run = [=, this, &stream, &tap, sources = sources_of(layout)](std::int64_t begin,
                                                                             std::int64_t end) {
                 for (; begin < end; begin += kMlpRows) {
                   const std::int64_t rows = std::min(kMlpRows, end - begin);
                   const View merged = merged_.row_range(0, rows);
                   const View inner = inner_.row_range(0, rows);
                   const View part = projected_.row_range(0, rows);
                   gather(stream,
                          std::span(sources).subspan(static_cast<std::size_t>(begin),
                                                     static_cast<std::size_t>(rows)),
                          features, merged);
                   apply_linear(stream, in_, merged, inner, {}, Activation::kGeluErf);
                   apply_linear(stream, to_text_, inner, part);
                   stream.copy(part, out.row_range(begin, begin + rows));
                   show(tap, stream, "vision.merged", part);
                 }
               }});
  }

 private:
  // What a row before the projection is: the square of four features whose first is `feature`, or a
  // separator.
  enum class Kind : std::uint8_t { kSquare, kRowEnd, kViewEnd };
  struct Source {
    Kind kind = Kind::kSquare;
    std::int32_t feature = 0;
  };

  // The tiles' squares, row by row of the joined tiles; then the whole image's, whose tile is the
  // first.
  std::vector<Source> sources_of(const ImageLayout& layout) const {
    const std::int64_t side = settings().side();
    const std::int64_t half = side / 2;
    const std::int64_t across = layout.resized_width / settings().image;
    const std::int64_t down = layout.resized_height / settings().image;
    std::vector<Source> sources;
    sources.reserve(static_cast<std::size_t>(layout.tokens));
    const auto add_view = [&](std::int64_t first_tile, std::int64_t tiles_down,
                              std::int64_t tiles_across) {
      for (std::int64_t y = 0; y < tiles_down * half; ++y) {
        for (std::int64_t x = 0; x < tiles_across * half; ++x) {
          const std::int64_t tile = first_tile + y / half * tiles_across + x / half;
          const std::int64_t at = (tile * side + 2 * (y % half)) * side + 2 * (x % half);
          sources.push_back({Kind::kSquare, static_cast<std::int32_t>(at)});
        }
        sources.push_back({Kind::kRowEnd});
      }
    };
    add_view(1, down, across);
    sources.push_back({Kind::kViewEnd});
    add_view(0, 1, 1);
    CHECK(static_cast<std::int64_t>(sources.size()) == layout.tokens, "{} rows for {} tokens",
          sources.size(), layout.tokens);
    return sources;
  }

  // A square's features side by side: its upper two, its lower two.
  void gather(Stream& stream, std::span<const Source> sources, View features, View merged) const {
    const auto side = static_cast<std::int32_t>(settings().side());
    const std::int64_t width = settings().width;
    std::vector<std::int32_t> rows(sources.size());
    std::int64_t column = 0;
    for (const std::int32_t offset : {0, 1, side, side + 1}) {
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = sources[i].feature + offset;
      stream.mix_rows({.x = features,
                       .rows = stream.upload(rows),
                       .weights = {},
                       .out = merged.col_range(column, column + width)});
      column += width;
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].kind == Kind::kSquare) continue;
      const auto row = static_cast<std::int64_t>(i);
      const bool row_end = sources[i].kind == Kind::kRowEnd;
      stream.copy(row_end ? row_separator_.view : view_separator_.view,
                  merged.row_range(row, row + 1));
    }
  }

  std::int64_t merged_width_;
  std::int64_t out_;
  VectorWeight view_separator_;  // [1, 4 * width]
  VectorWeight row_separator_;   // [1, 4 * width]
  Linear in_;
  Linear to_text_;
  View merged_;     // [kMlpRows, 4 * width]
  View inner_;      // [kMlpRows, text width]
  View projected_;  // [kMlpRows, text width]
};

// --- prompt ---

constexpr std::array<std::string_view, 1> kTagBegin = {"<|image_"};
constexpr std::string_view kTagEnd = "|>";

// A rendered prompt cut at its <|image_N|>: texts.size() == images.size() + 1.
struct TaggedText {
  std::vector<std::string_view> texts;
  std::vector<int> images;  // N - 1
};
TaggedText split_at_tags(std::string_view rendered) {
  TaggedText tagged;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = rendered.find(kTagBegin[0], at)) != std::string_view::npos;) {
    const std::size_t digits = at + kTagBegin[0].size();
    const std::size_t end =
        std::min(rendered.find_first_not_of("0123456789", digits), rendered.size());
    if (end == digits || end - digits > 6 || !rendered.substr(end).starts_with(kTagEnd)) {
      at = digits;
      continue;
    }
    tagged.texts.push_back(rendered.substr(begin, at - begin));
    tagged.images.push_back(std::stoi(std::string(rendered.substr(digits, end - digits))) - 1);
    at = begin = end + kTagEnd.size();
  }
  tagged.texts.push_back(rendered.substr(begin));
  return tagged;
}

// As published, for a checkpoint that ships none; images where they stand in their message.
constexpr std::string_view kPromptFormat =
    R"({%- set images = namespace(count=0) -%}
{%- for message in messages -%}
{{- '<|' + message.role + '|>\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] -%}
{%- set images.count = images.count + 1 -%}
{{- '<|image_' + images.count|string + '|>\n' -}}
{%- elif part.type == 'text' -%}{{- part.text -}}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt and messages[-1].role != 'assistant' -%}{{- '<|assistant|>\n' -}}{%- endif -%}
)";

// --- the model ---

// <|image|> of the published vocabulary; the reference has negative ids where images stand.
constexpr std::int64_t kImageToken = 32044;

constexpr PlaceholderWords kWords = {
    .literals = kTagBegin, .image = {}, .chat_template = kPromptFormat};

class Phi3VisionProcessor final : public ImageProcessor {
 public:
  Phi3VisionProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                      TokenId image_token)
      : ImageProcessor(std::move(shape), kWords, std::move(images)), image_token_(image_token) {}

  // Every part between images is a text of its own to the reference's tokenizer, which begins each
  // with <s>, whatever `add_special_tokens` says.
  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images, bool) const override {
    if (images.empty()) return wrap_tokens(encode_guarded(tokenizer, rendered, true));
    const TaggedText tagged = split_at_tags(rendered);
    TRY_DO(check_tags(tagged.images, images.size()));
    std::vector<TokenId> ids = encode_guarded(tokenizer, tagged.texts[0], true);
    std::vector<ImageSpan> spans;
    for (std::size_t i = 0; i < tagged.images.size(); ++i) {
      const int index = tagged.images[i];
      const std::int64_t tokens = images[static_cast<std::size_t>(index)].tokens;
      spans.push_back(
          {.begin = static_cast<std::int64_t>(ids.size()), .tokens = tokens, .index = index});
      ids.insert(ids.end(), static_cast<std::size_t>(tokens), image_token_);
      const auto more = encode_guarded(tokenizer, tagged.texts[i + 1], true);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    TRY(Prompt prompt, wrap_tokens(std::move(ids)));
    prompt.images = std::move(spans);
    return prompt;
  }

  std::string image_placeholder(int index) const override {
    return fmt::format("<|image_{}|>\n", index + 1);
  }

 private:
  static Result<void> check_tags(const std::vector<int>& tags, std::size_t images) {
    if (tags.size() != images)
      return fail(ErrorCode::kInvalid, "the prompt has {} image placeholders for {} images",
                  tags.size(), images);
    std::vector<bool> seen(images);
    for (const int tag : tags) {
      if (tag < 0 || static_cast<std::size_t>(tag) >= images || seen[static_cast<std::size_t>(tag)])
        return fail(ErrorCode::kInvalid,
                    "<|image_{}|> stands twice or has no image; {} images are numbered from 1",
                    tag + 1, images);
      seen[static_cast<std::size_t>(tag)] = true;
    }
    return {};
  }

  TokenId image_token_ = 0;
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig text, parse_phi3(checkpoint.config));
  TRY(TileTowerSettings tower, parse_clip(checkpoint.config));
  TRY_DO(refuse_other_embeddings(checkpoint.config));
  TRY_DO(require_image_steps(checkpoint.preprocessor));
  TRY(const NormalizeTable normalize, parse_normalize(checkpoint.preprocessor, {}));
  TRY(const std::int64_t crops, json::get_int_or(checkpoint.preprocessor, "num_crops", 1));
  if (crops < 1 || crops > kMaxCrops)
    return fail(ErrorCode::kInvalid,
                "preprocessor_config.json: num_crops is {}, 1 to {} is "
                "possible",
                crops, kMaxCrops);
  const auto image_token = static_cast<TokenId>(std::min(kImageToken, text.settings.vocab - 1));
  const std::int64_t hidden = text.settings.hidden;
  TRY(ModelShape shape, describe_model("phi-3-vision", checkpoint, text));
  auto images = std::make_unique<const HdImages>(tower, crops, normalize);
  describe_images(*images, shape);
  return UnloadedModel{std::make_unique<Phi3VisionProcessor>(shape, std::move(images), image_token),
                       make_network(std::move(shape), std::move(text.settings), phi3_names(),
                                    std::make_unique<Phi3VisionTower>(tower, hidden))};
}

// --- what checkpoints call themselves ---

}  // namespace
}  // namespace phi_3_vision

extern const Family kPhi3Vision;
const Family kPhi3Vision = {.name = "phi-3-vision",
                            .architectures = {"Phi3VForCausalLM"},
                            .model_types = {"phi3_v"},
                            .create = phi_3_vision::create};

}  // namespace saccade
