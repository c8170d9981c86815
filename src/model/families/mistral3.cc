// Pixtral 12B and Mistral Small 3.1 and 3.2 (24B). Reference: transformers' models/pixtral,
// models/llava and models/mistral3; report arXiv:2410.07073.
//
// Three odd things:
//  - An image is only ever made smaller: its longer side to a limit, then both sides up to whole
//    squares of patches, its aspect lost a little.
//  - After each row of an image's tokens stands [IMG_BREAK], after the last [IMG_END]: an image is
//    as many spans of embeddings as it has rows.
//  - Mistral 3 joins 2 x 2 patches by a matrix whose inputs go by channel, and then by patch.
#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <cmath>
#include <utility>

#include "image/smart_resize.h"
#include "model/checkpoint/config_section.h"
#include "model/families/mistral_decoder.h"
#include "model/family.h"
#include "model/images/image_processor.h"
#include "model/images/patch_grid.h"
#include "model/images/pixel_bounds.h"
#include "model/images/preprocessor_config.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/patch_rows.h"
#include "model/towers/pixtral_tower.h"

namespace saccade {
namespace mistral3 {
namespace {

// --- configuration ---

// What the two classes around the tower say where a file is silent.
struct ClassDefaults {
  std::string_view family;
  std::string_view text_type;  // model_type of text_config
  std::string_view vision_type;
  DecoderDefaults decoder;  // of the head's tie alone
  std::int64_t image_token;
  std::int64_t feature_layer;
  bool merges;
  bool projector_bias;
};
constexpr ClassDefaults kMistral3Class = {.family = "mistral-3",
                                          .text_type = "mistral",
                                          .vision_type = "pixtral",
                                          .decoder = {.tied_head = true},
                                          .image_token = 10,
                                          .feature_layer = -1,
                                          .merges = true,
                                          .projector_bias = false};
constexpr ClassDefaults kLlavaClass = {
    .family = "pixtral",
    .text_type = "llama",
    .vision_type = "clip_vision_model",
    .decoder = {.tied_head = false, .tie_field = TieField::kEither},
    .image_token = 32000,
    .feature_layer = -2,
    .merges = false,
    .projector_bias = true};

constexpr std::int64_t kMaxSide = 1 << 14;  // of an image

Result<void> require_type(const json::object& section, std::string_view name, std::string_view type,
                          std::string_view of_class) {
  TRY(const std::string found, json::get_string_or(section, "model_type", of_class));
  if (found != type)
    return fail(ErrorCode::kUnsupported, "{}: model_type \"{}\"; {} is done", name, found, type);
  return {};
}

Result<DecoderConfig> parse_text(const json::object& config, const ClassDefaults& defaults) {
  TRY(const json::object* text, config_section(config, "text_config"));
  TRY_DO(require_type(*text, "text_config", "mistral", defaults.text_type));
  TRY(DecoderConfig decoder, parse_mistral(config));
  TRY(decoder.settings.tied_head, has_tied_head(config, defaults.decoder));
  return decoder;
}

// The features are what the last layer makes, of all patches.
Result<void> check_features(const json::object& config, std::int64_t layers,
                            const ClassDefaults& defaults) {
  TRY(const std::int64_t layer,
      json::get_int_or(config, "vision_feature_layer", defaults.feature_layer));
  if (layer != -1 && layer != layers)
    return fail(ErrorCode::kUnsupported,
                "vision_feature_layer {} is not supported; -1, the last of {}, is", layer, layers);
  if (defaults.merges) return {};
  TRY(const std::string strategy,
      json::get_string_or(config, "vision_feature_select_strategy", "default"));
  if (strategy != "full")
    return fail(ErrorCode::kUnsupported,
                "vision_feature_select_strategy \"{}\" is not supported; \"full\" is", strategy);
  return {};
}

Result<PixtralTowerSettings> parse_tower(const json::object& config, const DecoderConfig& text,
                                         const ClassDefaults& defaults) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  TRY_DO(require_type(*vision, "vision_config", "pixtral", defaults.vision_type));
  PixtralTowerSettings tower;
  const std::array fields = {
      ExtentField{"num_hidden_layers", &tower.depth, 1024},
      ExtentField{"hidden_size", &tower.embed, 1 << 16},
      ExtentField{"num_attention_heads", &tower.heads, 1024},
      ExtentField{"intermediate_size", &tower.inner, 1 << 18},
      ExtentField{"num_channels", &tower.channels, 3},
      ExtentField{"patch_size", &tower.patch, 256},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  TRY_DO(check_pixtral_tower(tower));
  TRY(const std::int64_t head_dim, json::get_int_or(*vision, "head_dim", tower.head_dim()));
  if (head_dim != tower.head_dim())
    return fail(ErrorCode::kUnsupported, "vision_config.head_dim is {}, width {} in {} heads",
                head_dim, tower.embed, tower.heads);
  TRY(std::string activation, json::get_string_or(*vision, "hidden_act", "gelu"));
  TRY(tower.activation, parse_activation(activation));
  TRY(tower.rope_theta, json::get_double_or(*vision, "rope_theta", tower.rope_theta));
  if (const json::value* rope = json::find(*vision, "rope_parameters");
      rope != nullptr && rope->is_object()) {
    TRY(tower.rope_theta, json::get_double_or(rope->get_object(), "rope_theta", tower.rope_theta));
  }
  if (!(tower.rope_theta > 0) || !std::isfinite(tower.rope_theta))
    return fail(ErrorCode::kInvalid, "vision_config.rope_theta is {}", tower.rope_theta);
  TRY_DO(check_features(config, tower.depth, defaults));

  tower.merges = defaults.merges;
  tower.merge_norm = {
      .epsilon = text.settings.norm.epsilon, .weight_offset = 0, .subtract_mean = false};
  if (tower.merges) {
    tower.merge = 2;
    TRY_DO(read_extents(config, "config.json",
                        std::array{ExtentField{"spatial_merge_size", &tower.merge, 16}}));
  }
  TRY(activation, json::get_string_or(config, "projector_hidden_act", "gelu"));
  TRY(tower.projector_activation, parse_activation(activation));
  TRY(tower.projector_bias,
      json::get_bool_or(config, "multimodal_projector_bias", defaults.projector_bias));
  tower.out = text.settings.hidden;
  return tower;
}

// --- images ---

constexpr std::array<std::string_view, 1> kKwargs = {"size"};

// size.longest_edge of a preprocessor configuration or of mm_processor_kwargs: pixels of a side.
Result<std::int64_t> longest_edge(const json::object& from, std::int64_t fallback) {
  const json::value* size = json::find(from, "size");
  if (size == nullptr) return fallback;
  if (!size->is_object())
    return fail(ErrorCode::kInvalid, "size is {}, an object is required", json::kind_name(*size));
  TRY(const std::int64_t edge, json::get_int(size->get_object(), "longest_edge"));
  if (edge < 1 || edge > kMaxSide)
    return fail(ErrorCode::kInvalid, "size.longest_edge is {}, 1 to {} is possible", edge,
                kMaxSide);
  return edge;
}

class LongestEdgeImages final : public ImagePipeline {
 public:
  // `edge` bounds both sides before they become whole squares of patches.
  LongestEdgeImages(std::int64_t edge, const PatchLayout& patches, const NormalizeTable& normalize,
                    ResampleFilter filter)
      : ImagePipeline(std::make_shared<PatchRows>(patches, normalize), filter),
        edge_(edge),
        patches_(patches) {}

  // Bounds of pixels and tokens move the longer side: min_pixels as far as size.longest_edge lets
  // it, the others down to one square.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override {
    TRY(const std::int64_t limit, limit_of(controls));
    TRY_DO(check_shape(width, height, limit));
    std::int64_t longer = std::min<std::int64_t>(std::max(width, height), limit);
    const auto pixels = [&](std::int64_t edge) {
      const ImageSize size = at_edge(width, height, edge);
      return std::int64_t{size.width} * size.height;
    };
    // The first of (begin, end] from which on `reached` holds; `end` if none before it.
    const auto first = [](std::int64_t begin, std::int64_t end, const auto& reached) {
      while (end - begin > 1) {
        const std::int64_t middle = begin + (end - begin) / 2;
        (reached(middle) ? end : begin) = middle;
      }
      return end;
    };
    if (controls.min_pixels) {
      TRY(const std::int64_t least, pixel_count("min_pixels", *controls.min_pixels));
      const auto enough = [&](std::int64_t edge) { return pixels(edge) >= least; };
      if (!enough(longer)) longer = first(longer, std::max(limit, longer), enough);
    }
    std::int64_t most = kMaxPixels;
    if (controls.max_pixels) {
      TRY(most, pixel_count("max_pixels", *controls.max_pixels));
    }
    if (controls.max_tokens) {
      if (*controls.max_tokens < 1)
        return fail(ErrorCode::kInvalid, "max_tokens of an image is {}, at least 1 is possible",
                    *controls.max_tokens);
      const std::int64_t squares = std::min(*controls.max_tokens, kMaxPixels / unit() / unit());
      most = std::min(most, squares * unit() * unit());
    }
    const auto too_many = [&](std::int64_t edge) { return pixels(edge) > most; };
    if (too_many(longer)) longer = std::max<std::int64_t>(first(0, longer, too_many) - 1, 1);
    return layout_at(width, height, longer);
  }

  std::int64_t max_patches() const override {
    return max_tokens() * patches_.merge_size * patches_.merge_size;
  }
  std::int64_t max_tokens() const override {
    const std::int64_t side = (edge_ + unit() - 1) / unit();
    return side * side;
  }

 private:
  std::int64_t unit() const { return std::int64_t{patches_.patch_size} * patches_.merge_size; }

  Result<std::int64_t> limit_of(const ImageControls& controls) const {
    TRY_DO(check_processor_kwargs(controls, kKwargs));
    return of_processor_kwargs(longest_edge(controls.processor_kwargs, edge_));
  }

  // The longer side becomes `edge`, the other follows by their ratio, in float64 as the reference
  // has it; then both are rounded up to whole squares.
  ImageSize at_edge(int width, int height, std::int64_t edge) const {
    const double ratio = ratio_at(width, height, edge);
    const auto whole = [&](int side) {
      const auto pixels = static_cast<std::int64_t>(std::max(std::floor(side / ratio), 1.0));
      return static_cast<int>((pixels + unit() - 1) / unit() * unit());
    };
    return {.height = whole(height), .width = whole(width)};
  }

  static double ratio_at(int width, int height, std::int64_t edge) {
    const auto wanted = static_cast<double>(edge);
    return std::max(height / wanted, width / wanted);
  }

  // The reference has no image of which nothing is left. (Bounds of pixels and tokens leave one
  // square.)
  static Result<void> check_shape(int width, int height, std::int64_t limit) {
    const double ratio = ratio_at(width, height, limit);
    if (ratio > 1 && std::floor(std::min(width, height) / ratio) < 1)
      return fail(ErrorCode::kInvalid,
                  "an image of {}x{} pixels has nothing left of its shorter side when the longer "
                  "is {}, the limit",
                  width, height, limit);
    return {};
  }

  ImageLayout layout_at(int width, int height, std::int64_t edge) const {
    return patch_grid(width, height, at_edge(width, height, edge), patches_);
  }

  std::int64_t edge_;
  PatchLayout patches_;
};

Result<std::unique_ptr<const ImagePipeline>> parse_images(const json::object& preprocessor,
                                                          const PixtralTowerSettings& tower) {
  TRY_DO(require_image_steps(preprocessor));
  TRY(const std::int64_t edge, longest_edge(preprocessor, 1024));
  TRY(const NormalizeTable normalize, parse_normalize(preprocessor, {}));
  TRY(const ResampleFilter filter, parse_resample(preprocessor, ResampleFilter::kBicubic));
  const PatchLayout patches = {.patch_size = static_cast<int>(tower.patch),
                               .merge_size = static_cast<int>(tower.merge),
                               .temporal_patch_size = 1};
  return std::unique_ptr<const ImagePipeline>(
      std::make_unique<const LongestEdgeImages>(edge, patches, normalize, filter));
}

// --- prompts ---

constexpr std::string_view kImage = "[IMG]";
constexpr std::string_view kBreak = "[IMG_BREAK]";
constexpr std::string_view kEnd = "[IMG_END]";
constexpr std::array<std::string_view, 3> kLiterals = {kImage, kBreak, kEnd};

constexpr PlaceholderWords kWords = {.literals = kLiterals, .image = kImage};

class PixtralProcessor final : public ImageProcessor {
 public:
  // A token for each square of `merge` x `merge` patches.
  PixtralProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                   TokenId image_token, std::int64_t merge)
      : ImageProcessor(std::move(shape), kWords, std::move(images)),
        image_token_(image_token),
        merge_(merge) {}

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    const std::vector<TokenId> ids = encode_guarded(tokenizer, rendered, add_special_tokens);
    const auto found = std::ranges::count(ids, image_token_);
    if (static_cast<std::size_t>(found) != images.size())
      return fail(ErrorCode::kInvalid, "the prompt has {} image placeholders for {} images", found,
                  images.size());
    if (images.empty()) return wrap_tokens(ids);
    const auto line_break = tokenizer.token_to_id(kBreak);
    const auto end = tokenizer.token_to_id(kEnd);
    if (!line_break || !end)
      return fail(ErrorCode::kUnsupported, "the tokenizer has no {}", line_break ? kEnd : kBreak);
    std::vector<TokenId> expanded;
    std::vector<ImageSpan> spans;
    int image = 0;
    for (const TokenId id : ids) {
      if (id != image_token_) {
        expanded.push_back(id);
        continue;
      }
      const ImageLayout& layout = images[static_cast<std::size_t>(image)];
      const std::int64_t across = layout.grid_w / merge_;
      for (std::int64_t row = 0; row < layout.tokens; row += across) {
        spans.push_back({.begin = static_cast<std::int64_t>(expanded.size()),
                         .tokens = across,
                         .index = image,
                         .first_row = row});
        expanded.insert(expanded.end(), static_cast<std::size_t>(across), image_token_);
        expanded.push_back(row + across < layout.tokens ? *line_break : *end);
      }
      ++image;
    }
    TRY(Prompt prompt, wrap_tokens(std::move(expanded)));
    prompt.images = std::move(spans);
    return prompt;
  }

 private:
  TokenId image_token_;
  std::int64_t merge_;
};

Result<UnloadedModel> create_of(const Checkpoint& checkpoint, const ClassDefaults& defaults) {
  const json::object& config = checkpoint.config;
  TRY(DecoderConfig text, parse_text(config, defaults));
  TRY(PixtralTowerSettings tower, parse_tower(config, text, defaults));
  TRY(const TokenId image_token,
      media_token(config, {{"image_token_index", "image_token_id"}, defaults.image_token},
                  text.settings.vocab));
  TRY(auto images, parse_images(checkpoint.preprocessor, tower));
  DecoderNames names = DecoderNames::under("language_model.model.", "language_model.lm_head");
  TRY(ModelShape shape, describe_model(defaults.family, checkpoint, text));
  describe_images(*images, shape);
  const std::int64_t merge = tower.merge;
  return UnloadedModel{
      std::make_unique<PixtralProcessor>(shape, std::move(images), image_token, merge),
      make_network(std::move(shape), std::move(text.settings), std::move(names),
                   make_pixtral_tower(tower))};
}

Result<UnloadedModel> create_mistral3(const Checkpoint& checkpoint) {
  return create_of(checkpoint, kMistral3Class);
}
Result<UnloadedModel> create_pixtral(const Checkpoint& checkpoint) {
  return create_of(checkpoint, kLlavaClass);
}

// --- what checkpoints call themselves ---

// Today's names.
constexpr std::array kAliases = {
    NameAlias{"model.language_model.", "language_model.model."},
    NameAlias{"lm_head.", "language_model.lm_head."},
    NameAlias{"model.vision_tower.", "vision_tower."},
    NameAlias{"model.multi_modal_projector.", "multi_modal_projector."}};

}  // namespace
}  // namespace mistral3

extern const Family kMistral3;
const Family kMistral3 = {.name = "mistral-3",
                          .architectures = {"Mistral3ForConditionalGeneration"},
                          .model_types = {"mistral3"},
                          .aliases = mistral3::kAliases,
                          .create = mistral3::create_mistral3};

extern const Family kPixtral;
const Family kPixtral = {.name = "pixtral",
                         .architectures = {"LlavaForConditionalGeneration"},
                         .model_types = {"llava"},
                         .aliases = mistral3::kAliases,
                         .create = mistral3::create_pixtral};

}  // namespace saccade
