// Llama 3.2 Vision (11B and 90B). Reference: transformers' models/mllama and Meta's llama-models;
// report arXiv:2407.21783, section 7.
//
// Three odd things:
//  - An image is one token of the text. Its rows are attended to by some of the decoder's layers,
//    which have no self-attention and scale what they add by gates; text alone passes them by. A
//    token sees the image that came last, and with it those right before that one.
//  - A token that sees no image passes these layers unchanged, as Meta's code and other servers
//  have
//    it; transformers zeroes the MLP's part alone, and lets the attention see all images.
//  - The embedding has eight rows more than there are logits; the image's token is the first.
#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/images/image_processor.h"
#include "model/images/mllama_images.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/mllama_tower.h"

namespace saccade {
namespace mllama {
namespace {

// --- configuration ---

constexpr DecoderDefaults kDefaults = {.norm_epsilon = 1e-5,
                                       .rope_theta = 500000,
                                       .max_position = 131072,
                                       .sliding_window = 0,
                                       .max_window_layers = 0,
                                       .tied_head = false};
constexpr std::int64_t kPlaceholders = 8;  // rows of the embedding after the vocabulary's
constexpr std::array<std::int64_t, 8> kCrossLayers = {3, 8, 13, 18, 23, 28, 33, 38};
constexpr std::array<std::int64_t, 5> kInnerLayers = {3, 7, 15, 23, 30};

// Indices below `count`, each once.
Result<std::vector<std::int64_t>> read_layers(const json::object& from, std::string_view name,
                                              std::span<const std::int64_t> usual,
                                              std::int64_t count) {
  std::vector<std::int64_t> layers(usual.begin(), usual.end());
  if (const json::value* list = json::find(from, name); list != nullptr) {
    if (!list->is_array())
      return fail(ErrorCode::kInvalid, "{} is {}, a list is required", name,
                  json::kind_name(*list));
    layers.clear();
    for (const json::value& layer : list->get_array())
      layers.push_back(layer.is_int64() ? layer.get_int64() : -1);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool again = std::find(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(i),
                                 layers[i]) != layers.begin() + static_cast<std::ptrdiff_t>(i);
    if (layers[i] < 0 || layers[i] >= count || again)
      return fail(ErrorCode::kInvalid, "{} names a layer twice or one that is none of {}", name,
                  count);
  }
  return layers;
}

Result<DecoderConfig> parse_text(const json::object& config) {
  TRY(const json::object* text, config_section(config, "text_config"));
  TRY(const std::string type, json::get_string_or(*text, "model_type", "mllama_text_model"));
  if (type != "mllama_text_model")
    return fail(ErrorCode::kUnsupported, "text_config.model_type \"{}\" is not done", type);
  TRY(DecoderConfig decoder, parse_decoder(config, kDefaults));
  DecoderSettings& s = decoder.settings;
  if (s.head_dim * s.heads != s.hidden)
    return fail(ErrorCode::kUnsupported, "{} heads of {} in a width of {}", s.heads, s.head_dim,
                s.hidden);
  if (s.tied_head)
    return fail(ErrorCode::kUnsupported, "tie_word_embeddings true is not supported");
  TRY(const std::vector<std::int64_t> across,
      read_layers(*text, "cross_attention_layers", kCrossLayers,
                  static_cast<std::int64_t>(s.layers.size())));
  if (across.size() == s.layers.size() || across.empty())
    return fail(ErrorCode::kUnsupported, "cross_attention_layers are {} of {} layers",
                across.size(), s.layers.size());
  for (const std::int64_t layer : across)
    s.layers[static_cast<std::size_t>(layer)].kind = LayerKind::kCrossAttention;
  s.placeholders = kPlaceholders;
  return decoder;
}

// All arrangements of at most `tiles` tiles, in the reference's order: their embeddings are counted
// by it.
Result<std::int64_t> read_ratios(const json::object& vision, std::int64_t tiles) {
  json::array all;
  for (std::int64_t first = 1; first <= tiles; ++first) {
    for (std::int64_t second = 1; first * second <= tiles; ++second)
      all.push_back(json::array{first, second});
  }
  const json::value* given = json::find(vision, "supported_aspect_ratios");
  const bool same = given == nullptr ? tiles == 4 : *given == json::value(all);
  if (!same)
    return fail(ErrorCode::kUnsupported,
                "vision_config.supported_aspect_ratios are not all arrangements of up to "
                "max_num_tiles = {} tiles in their order",
                tiles);
  return static_cast<std::int64_t>(all.size());
}

Result<MllamaTowerSettings> parse_tower(const json::object& config, const DecoderConfig& text) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  TRY(std::string type, json::get_string_or(*vision, "model_type", "mllama_vision_model"));
  if (type != "mllama_vision_model")
    return fail(ErrorCode::kUnsupported, "vision_config.model_type \"{}\" is not done", type);
  MllamaTowerSettings tower;
  tower.image = 448;
  std::int64_t channels = 3;
  std::int64_t out = 7680;
  const std::array fields = {
      ExtentField{"num_hidden_layers", &tower.layers, 1024},
      ExtentField{"num_global_layers", &tower.global_layers, 1024},
      ExtentField{"hidden_size", &tower.width, 1 << 16},
      ExtentField{"attention_heads", &tower.heads, 1024},
      ExtentField{"intermediate_size", &tower.inner, 1 << 18},
      ExtentField{"image_size", &tower.image, 1 << 12},
      ExtentField{"patch_size", &tower.patch, 256},
      ExtentField{"max_num_tiles", &tower.tiles, 64},
      ExtentField{"num_channels", &channels, 3},
      ExtentField{"vision_output_dim", &out, 1 << 20},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  if (channels != 3 || tower.width % tower.heads != 0 || tower.head_dim() % 2 != 0 ||
      tower.patch > tower.image)
    return fail(ErrorCode::kUnsupported,
                "vision_config: {} channels, width {} in {} heads, patches of {} in {} pixels",
                channels, tower.width, tower.heads, tower.patch, tower.image);
  TRY(tower.ratios, read_ratios(*vision, tower.tiles));
  TRY(tower.inner_layers,
      read_layers(*vision, "intermediate_layers_indices", kInnerLayers, tower.layers));
  if (out != tower.features())
    return fail(ErrorCode::kInvalid,
                "vision_config.vision_output_dim is {}, the last layer and {} others of {} make {}",
                out, tower.inner_layers.size(), tower.width, tower.features());
  TRY(const double epsilon, json::get_double_or(*vision, "norm_eps", 1e-5));
  tower.norm.epsilon = static_cast<float>(epsilon);
  TRY(const std::string activation, json::get_string_or(*vision, "hidden_act", "gelu"));
  TRY(tower.activation, parse_activation(activation));
  tower.out = text.settings.hidden;
  return tower;
}

// --- prompts ---

constexpr std::string_view kImage = "<|image|>";
constexpr std::array<std::string_view, 1> kLiterals = {kImage};

constexpr PlaceholderWords kWords = {.literals = kLiterals, .image = kImage};

class MllamaProcessor final : public ImageProcessor {
 public:
  MllamaProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                  TokenId image_token)
      : ImageProcessor(std::move(shape), kWords, std::move(images)), image_token_(image_token) {}

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    TRY(Prompt prompt, wrap_tokens(encode_guarded(tokenizer, rendered, add_special_tokens)));
    for (std::size_t i = 0; i < prompt.ids.size(); ++i) {
      if (prompt.ids[i] == image_token_)
        prompt.images.push_back({.begin = static_cast<std::int64_t>(i),
                                 .tokens = 1,
                                 .index = static_cast<int>(prompt.images.size())});
    }
    if (prompt.images.size() != images.size())
      return fail(ErrorCode::kInvalid, "the prompt has {} image placeholders for {} images",
                  prompt.images.size(), images.size());
    prompt.cross_attends = !images.empty();
    return prompt;
  }

 private:
  TokenId image_token_;
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  const json::object& config = checkpoint.config;
  TRY(DecoderConfig text, parse_text(config));
  TRY(MllamaTowerSettings tower, parse_tower(config, text));
  TRY(const TokenId image_token,
      media_token(config, {{"image_token_id", "image_token_index"}, 128256},
                  text.settings.vocab + kPlaceholders));
  TRY(auto images, parse_mllama_images(checkpoint.preprocessor, tower));
  DecoderNames names = DecoderNames::under("language_model.model.", "language_model.lm_head");
  TRY(ModelShape shape, describe_model("llama-3.2-vision", checkpoint, text));
  shape.placeholders = kPlaceholders;
  describe_images(*images, shape);
  return UnloadedModel{std::make_unique<MllamaProcessor>(shape, std::move(images), image_token),
                       make_network(std::move(shape), std::move(text.settings), std::move(names),
                                    make_mllama_tower(std::move(tower)))};
}

// --- what checkpoints call themselves ---

// Today's names.
constexpr std::array kAliases = {
    NameAlias{"model.language_model.", "language_model.model."},
    NameAlias{"lm_head.", "language_model.lm_head."},
    NameAlias{"model.vision_model.", "vision_model."},
    NameAlias{"model.multi_modal_projector.", "multi_modal_projector."}};

}  // namespace
}  // namespace mllama

extern const Family kMllama;
const Family kMllama = {.name = "llama-3.2-vision",
                        .architectures = {"MllamaForConditionalGeneration"},
                        .model_types = {"mllama"},
                        .aliases = mllama::kAliases,
                        .create = mllama::create};

}  // namespace saccade
