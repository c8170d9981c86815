// InternVL2 (1B to 26B), 2.5, 3 and 3.5, which share their structure. Reference:
// OpenGVLab/InternVL (internvl_chat/internvl/model), transformers' models/internvl; reports
// arXiv:2404.16821, 2504.10479, 2508.18265.
//
// Four odd things:
//  - The language part is whichever was at hand, under its own names: InternLM2 (queries, keys and
//    values of one matrix, grouped by key head), Qwen2, Qwen3, Llama or Phi-3.
//  - An image is cut into tiles of a grid with the nearest aspect, up to twelve, and seen once more
//    as a whole; each tile is 256 tokens between one <img> and one </img>.
//  - The conversation format is a name in config.json (`template`): Python code beside the
//    checkpoint knows what it means. Its default system message is Chinese.
//  - A video is its frames as one tile each, "Frame1: " and so on before them.
#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <utility>

#include "model/checkpoint/decoder_config.h"
#include "model/families/phi3_decoder.h"
#include "model/families/qwen3_decoder.h"
#include "model/family.h"
#include "model/images/dynamic_tiles.h"
#include "model/images/image_processor.h"
#include "model/images/preprocessor_config.h"
#include "model/prompts/placed_media.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/intern_vit.h"
#include "model/videos/tile_videos.h"

namespace saccade {
namespace internvl2 {
namespace {

// --- configuration ---

constexpr NormalizeSettings kImageNet = {.mean = {0.485, 0.456, 0.406},
                                         .std = {0.229, 0.224, 0.225}};
constexpr DecoderDefaults kInternLm2Defaults = {.norm_epsilon = 1e-6, .max_position = 2048};
constexpr DecoderDefaults kLlamaDefaults = {.norm_epsilon = 1e-6, .max_position = 2048};
constexpr DecoderDefaults kQwen2Defaults = {.norm_epsilon = 1e-6,
                                            .rope_theta = 10000,
                                            .max_position = 32768,
                                            .sliding_window = 4096,
                                            .max_window_layers = 28};

// As published with the models; else as transformers' class has it.
bool is_original(const json::object& config) { return json::find(config, "llm_config") != nullptr; }

DecoderNames prefixed_names() {
  return DecoderNames::under("language_model.model.", "language_model.lm_head");
}

DecoderNames internlm2_names() {
  DecoderNames names = prefixed_names();
  names.embedding = "language_model.model.tok_embeddings";
  names.attention_norm = "attention_norm";
  names.qkv = {"attention.wqkv"};
  names.qkv_by_key_head = true;
  names.attention_out = "attention.wo";
  names.mlp_norm = "ffn_norm";
  names.gate_up = {"feed_forward.w1", "feed_forward.w3"};
  names.mlp_out = "feed_forward.w2";
  names.head = "language_model.output";
  return names;
}

struct TextPart {
  DecoderConfig decoder;
  DecoderNames names;
};

Result<TextPart> parse_language_part(const json::object& config) {
  const json::object& text = text_section(config);
  TRY(const std::string type, json::get_string_or(text, "model_type", "qwen2"));
  TextPart part{{}, prefixed_names()};
  if (type == "qwen2") {
    TRY(part.decoder, parse_decoder(config, kQwen2Defaults));
    part.decoder.settings.qkv_bias = true;
    return part;
  }
  if (type == "qwen3") {
    TRY(part.decoder, parse_qwen3(config));
    return part;
  }
  if (type == "phi3") {
    TRY(part.decoder, parse_phi3(config));
    part.names = phi3_names("language_model.");
    return part;
  }
  if (type == "internlm2") {
    TRY(part.decoder, parse_decoder(config, kInternLm2Defaults));
    part.names = internlm2_names();
    TRY(const bool biased, json::get_bool_or(text, "bias", true));
    if (biased)
      return fail(ErrorCode::kUnsupported, "bias of a language part of type {} is not done", type);
    return part;
  }
  if (type == "llama") {
    TRY(part.decoder, parse_decoder(config, kLlamaDefaults));
    TRY_DO(read_biases(text, part.decoder.settings));
    return part;
  }
  return fail(ErrorCode::kUnsupported,
              "the language part is of type \"{}\"; internlm2, qwen2, qwen3, llama and phi3 are "
              "done",
              type);
}

Result<TextPart> parse_text(const json::object& config) {
  TRY(TextPart part, parse_language_part(config));
  // transformers' class ties unless config.json says no; the original leaves it to the language
  // part, whose classes do not.
  DecoderDefaults defaults{.tied_head = !is_original(config)};
  if (is_original(config)) defaults.tie_field = TieField::kInner;
  TRY(part.decoder.settings.tied_head, has_tied_head(config, defaults));
  return part;
}

Result<InternVitSettings> parse_vision(const Checkpoint& checkpoint) {
  const json::object& config = checkpoint.config;
  const bool original = is_original(config);
  TRY(const std::int64_t layer,
      json::get_int_or(config, original ? "select_layer" : "vision_feature_layer", -1));
  TRY(const double ratio, json::get_double_or(config, "downsample_ratio", 0.5));
  TRY(const bool padded, json::get_bool_or(config, "pad2square", false));
  TRY(const std::string strategy,
      json::get_string_or(config, "vision_feature_select_strategy", "default"));
  if (layer >= 0 || layer < -1024 || ratio != 0.5 || padded || strategy != "default")
    return fail(ErrorCode::kUnsupported,
                "features of layer {}, downsample_ratio {}, pad2square {}, "
                "vision_feature_select_strategy \"{}\": not done",
                layer, ratio, padded, strategy);
  std::int64_t tile = 0;
  if (original) {
    TRY(tile, json::get_int_or(config, "force_image_size", 0));
    if (tile < 0 || tile > 1 << 14)
      return fail(ErrorCode::kInvalid, "force_image_size is {}", tile);
  } else {
    TRY(tile, parse_square_size(checkpoint.preprocessor, 448));
  }
  TRY(InternVitSettings vision,
      parse_intern_vit(config, original ? InternVitNames::kOriginal : InternVitNames::kTransformers,
                       tile, -1 - layer));
  if (original) {
    TRY(const std::string version, json::get_string_or(config, "ps_version", "v1"));
    if (version != "v1" && version != "v2")
      return fail(ErrorCode::kUnsupported, "ps_version \"{}\" is not done", version);
    vision.transposed = version == "v1";
  }
  TRY(const std::string activation, json::get_string_or(config, "projector_hidden_act", "gelu"));
  TRY(vision.projector, parse_activation(activation));
  return vision;
}

Result<DynamicTilesSettings> parse_tiles(const Checkpoint& checkpoint,
                                         const InternVitSettings& vision) {
  const bool original = is_original(checkpoint.config);
  DynamicTilesSettings tiles;
  tiles.tile = static_cast<int>(vision.tower.image);
  tiles.tile_tokens = vision.tile_tokens();
  if (original) {
    tiles.max_tiles = 6;
    TRY(tiles.thumbnail, json::get_bool_or(checkpoint.config, "use_thumbnail", false));
    TRY(const bool dynamic, json::get_bool_or(checkpoint.config, "dynamic_image_size", false));
    TRY(tiles, read_tile_counts(checkpoint.config, tiles));
    if (!dynamic) tiles.min_tiles = tiles.max_tiles = 1;
    return tiles;
  }
  // transformers' processor cuts patches whatever its image processor's file says.
  json::object counts = checkpoint.preprocessor;
  counts["crop_to_patches"] = true;
  return read_tile_counts(counts, tiles);
}

// --- videos ---

// As many as the models' cards take: neither published files nor the reference say.
const FrameChoice kOwnFrames = {
    .fps = {}, .num_frames = 8, .min_frames = 1, .max_frames = kOwnMostFrames};

Result<std::unique_ptr<const TileVideos>> parse_videos(const Checkpoint& checkpoint,
                                                       const InternVitSettings& vision) {
  const json::object& file = video_preprocessor(checkpoint);
  TRY_DO(require_image_steps(file));
  const auto tile = static_cast<int>(vision.tower.image);
  if (!is_original(checkpoint.config)) {
    TRY(const int size, parse_square_size(file, tile));
    TRY_DO(check_frame_size(size, tile));
  }
  TileVideoSettings videos{.tile = tile,
                           .side = vision.tower.side(),
                           .frame_tokens = vision.tile_tokens(),
                           .name = "internvl2",
                           .kwargs = {kTileCountKwargs.begin(), kTileCountKwargs.end()}};
  TRY(videos.filter, parse_resample(file, ResampleFilter::kBicubic));
  TRY(const NormalizeTable normalize, parse_normalize(file, kImageNet));
  TRY(const FrameSampling sampling,
      FrameSampling::parse(file, SamplingRule::kMiddles, 1, kOwnFrames));
  return std::make_unique<const TileVideos>(std::move(videos), sampling, vision.tower, normalize);
}

// --- prompts ---

constexpr std::string_view kContext = "<IMG_CONTEXT>";
constexpr std::string_view kStart = "<img>";
constexpr std::string_view kEnd = "</img>";
constexpr std::string_view kVideo = "<video>";
// Beginnings: what is guarded is not followed by ">" for the search of placeholders.
constexpr std::array<std::string_view, 4> kLiterals = {"<IMG_CONTEXT", "<img", "</img", "<video"};

// What stands around a turn: `begin` once, then for each message before + role + "\n", its text and
// `after`.
struct Conversation {
  std::string_view name;
  std::string_view begin;
  std::string_view before;
  std::string_view after_role;
  std::string_view after;
  std::string_view system;
};
constexpr std::string_view kSystem2 =
    "你是由上海人工智能实验室联合商汤科技开发的书生多模态大模型，英文名叫InternVL, "
    "是一个有用无害的人工智能助手。";
constexpr std::string_view kSystem25 =
    "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模"
    "态大语言模型。";
// `begin` is what the checkpoints' tokenizers put in front.
constexpr std::array kConversations = {
    Conversation{"Hermes-2", "", "<|im_start|>", "\\n", "<|im_end|>", kSystem2},
    Conversation{"internlm2-chat", "<s>", "<|im_start|>", "\\n", "<|im_end|>", kSystem2},
    Conversation{"phi3-chat", "<s>", "<|", "|>\\n", "<|end|>", kSystem2},
    Conversation{"internvl2_5", "", "<|im_start|>", "\\n", "<|im_end|>\\n", kSystem25},
};

// Images are numbered where there are several, as the models' cards do.
constexpr std::string_view kTemplate =
    R"({%- set seen = namespace(images=0, all=0) -%}
{%- for message in messages -%}{%- if message.content is not string -%}
{%- for part in message.content -%}{%- if part.type in ['image', 'image_url'] -%}{%- set seen.all = seen.all + 1 -%}{%- endif -%}{%- endfor -%}
{%- endif -%}{%- endfor -%}
{{- 'BEGIN' -}}
{%- if messages[0].role != 'system' -%}{{- 'BEFOREsystemROLESYSTEMAFTER' -}}{%- endif -%}
{%- for message in messages -%}
{{- 'BEFORE' + message.role + 'ROLE' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] -%}
{%- set seen.images = seen.images + 1 -%}
{%- if seen.all > 1 -%}{{- 'Image-' + seen.images|string + ': ' -}}{%- endif -%}
{{- '<IMG_CONTEXT>\n' -}}
{%- elif part.type in ['video', 'video_url'] -%}{{- '<video>\n' -}}
{%- elif part.type == 'text' -%}{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- 'AFTER' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'BEFOREassistantROLE' -}}{%- endif -%}
)";

std::string template_of(const Conversation& conversation) {
  std::string text(kTemplate);
  using Replacement = std::pair<std::string_view, std::string_view>;
  for (const auto& [word, by] :
       {Replacement{"BEGIN", conversation.begin}, Replacement{"BEFORE", conversation.before},
        Replacement{"ROLE", conversation.after_role}, Replacement{"AFTER", conversation.after},
        Replacement{"SYSTEM", conversation.system}}) {
    for (std::size_t at = text.find(word); at != std::string::npos;
         at = text.find(word, at + by.size()))
      text.replace(at, word.size(), by);
  }
  return text;
}

// --- the model ---

constexpr PlaceholderWords kWords = {
    .literals = kLiterals, .image = "<IMG_CONTEXT>\n", .video = "<video>\n"};

class InternVl2Processor final : public ImageProcessor {
 public:
  InternVl2Processor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                     std::unique_ptr<const VideoPipeline> videos, std::string chat_template)
      : ImageProcessor(std::move(shape), kWords, std::move(images), std::move(videos)),
        template_(std::move(chat_template)) {}

  // A lone <IMG_CONTEXT> stands for an image: <img>, as many of it as the image has rows, </img>.
  // <video> stands for such a line a frame.
  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> media,
                              bool add_special_tokens) const override {
    TRY(const PlacedMedia placed, place_media(rendered, media,
                                              {.image = kContext,
                                               .video = kVideo,
                                               .write_image = write_image,
                                               .write_video = write_video}));
    std::vector<TokenId> ids = encode_guarded(tokenizer, placed.text, add_special_tokens);
    if (media.empty()) return wrap_tokens(std::move(ids));
    for (const std::string_view name : {kStart, kContext, kEnd}) {
      if (!tokenizer.token_to_id(name))
        return fail(ErrorCode::kInvalid, "the tokenizer has no token {}", name);
    }
    return expand_pieces(ids, std::array{*tokenizer.token_to_id(kContext)}, placed.pieces);
  }

  std::string_view default_chat_template() const override { return template_; }

 private:
  static void add_image(std::int64_t tokens, int input, PlacedMedia& to) {
    to.text.append(kStart).append(kContext).append(kEnd);
    to.pieces.push_back({.tokens = tokens, .index = input});
  }
  static void write_image(const ImageLayout& image, int input, PlacedMedia& to) {
    add_image(image.tokens, input, to);
  }
  static void write_video(const ImageLayout& video, int input, PlacedMedia& to) {
    for (int frame = 0; frame < video.grid_t; ++frame) {
      to.text += fmt::format("{}Frame{}: ", frame > 0 ? "\n" : "", frame + 1);
      add_image(video.group_tokens, input + frame, to);
    }
  }

  std::string template_;
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(TextPart text, parse_text(checkpoint.config));
  TRY(InternVitSettings vision, parse_vision(checkpoint));
  vision.out = text.decoder.settings.hidden;
  TRY(const DynamicTilesSettings tiles, parse_tiles(checkpoint, vision));
  TRY_DO(require_image_steps(checkpoint.preprocessor));
  TRY(const NormalizeTable normalize, parse_normalize(checkpoint.preprocessor, kImageNet));
  TRY(const ResampleFilter filter,
      parse_resample(checkpoint.preprocessor, ResampleFilter::kBicubic));
  std::string chat_template;
  if (is_original(checkpoint.config)) {
    TRY(const std::string format, json::get_string_or(checkpoint.config, "template", ""));
    const auto known = std::ranges::find(kConversations, format, &Conversation::name);
    if (known != kConversations.end()) chat_template = template_of(*known);
  }
  TRY(ModelShape shape, describe_model("internvl2", checkpoint, text.decoder));
  auto images = std::make_unique<const DynamicTiles>(tiles, vision.tower, normalize, filter);
  describe_images(*images, shape);
  TRY(std::unique_ptr<const TileVideos> videos, parse_videos(checkpoint, vision));
  shape.frames_per_grid = 1;
  return UnloadedModel{std::make_unique<InternVl2Processor>(
                           shape, std::move(images), std::move(videos), std::move(chat_template)),
                       make_network(std::move(shape), std::move(text.decoder.settings),
                                    std::move(text.names), std::make_unique<InternVit>(vision))};
}

// --- what checkpoints call themselves ---

// Current transformers' names to those of its first checkpoints; the originals have neither.
constexpr std::array kAliases = {
    NameAlias{"model.vision_tower.", "vision_tower."},
    NameAlias{"model.multi_modal_projector.", "multi_modal_projector."},
    NameAlias{"model.language_model.", "language_model.model."},
    NameAlias{"lm_head.", "language_model.lm_head."}};

}  // namespace
}  // namespace internvl2

extern const Family kInternVl2;
const Family kInternVl2 = {
    .name = "internvl2",
    .architectures = {"InternVLChatModel", "InternVLForConditionalGeneration"},
    .model_types = {"internvl_chat", "internvl"},
    .aliases = internvl2::kAliases,
    .create = internvl2::create};

}  // namespace saccade
