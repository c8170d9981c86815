// Gemma 3 (270M and 1B text, 4B, 12B, 27B with images). Reference: transformers' models/gemma3;
// report arXiv:2503.19786.
//
// Three odd things:
//  - Five layers of six see a window and turn by frequencies of their own (theta 10,000); the sixth
//    sees everything, with theta 1,000,000, stretched eightfold in the sizes with images.
//  - An image is squeezed to a square and its patches are averaged to 256 tokens, which see each
//    other both ways inside a prompt that is causal otherwise.
//  - Queries and keys are normed head by head, and so are attention and MLP after they are done.
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/families/known_templates.h"
#include "model/family.h"
#include "model/images/image_processor.h"
#include "model/images/square_images.h"
#include "model/prompts/placeholders.h"
#include "model/text_model.h"
#include "model/text_network.h"
#include "model/towers/tile_tower.h"

namespace saccade {

const std::string_view kGemma3Template =
    R"({{- bos_token -}}
{%- if messages[0].role == 'system' -%}
{%- set before = (messages[0].content if messages[0].content is string else messages[0].content[0].text) + '\n\n' -%}
{%- set turns = messages[1:] -%}
{%- else -%}
{%- set before = '' -%}
{%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' + (before if loop.first else '') -}}
{%- if message.content is string -%}{{- message.content | trim -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] -%}{{- '<start_of_image>' -}}
{%- elif part.type == 'text' -%}{{- part.text | trim -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}
)";

namespace gemma3 {
namespace {

// --- configuration ---

constexpr DecoderDefaults kDefaults = {.norm_epsilon = 1e-6,
                                       .rope_theta = 1e6,
                                       .max_position = 131072,
                                       .sliding_window = 4096,
                                       .tied_head = true,
                                       .head_dim = 256,
                                       .activation = "gelu_pytorch_tanh"};
constexpr double kWindowTheta = 10000;
constexpr NormalizeSettings kNormalize = {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};

// Published files leave out what the class has as its default.
struct ClassDefault {
  std::string_view name;
  std::int64_t value;
};
constexpr std::array kClassDefaults = {
    ClassDefault{"hidden_size", 2304},      ClassDefault{"intermediate_size", 9216},
    ClassDefault{"num_hidden_layers", 26},  ClassDefault{"num_attention_heads", 8},
    ClassDefault{"num_key_value_heads", 4}, ClassDefault{"vocab_size", 262208}};

// Every sixth layer is a full one.
Result<json::array> layer_types(const json::object& text) {
  TRY(const std::int64_t layers, json::get_int(text, "num_hidden_layers"));
  TRY(std::int64_t period, json::get_int_or(text, "_sliding_window_pattern", 6));
  TRY(period, json::get_int_or(text, "sliding_window_pattern", period));
  if (period < 1 || layers > 1024)
    return fail(ErrorCode::kInvalid, "sliding_window_pattern is {}, num_hidden_layers {}", period,
                layers);
  json::array types;
  for (std::int64_t i = 1; i <= layers; ++i)
    types.emplace_back(i % period == 0 ? "full_attention" : "sliding_attention");
  return types;
}

// text_config with the defaults of its class written out, flat, as other decoders have it. Rope has
// a section for each kind of layer in current files.
struct TextConfig {
  json::object full;
  json::object window_rope;
};
Result<TextConfig> written_out(const json::object& config) {
  TextConfig text{text_section(config), {}};
  for (const ClassDefault& each : kClassDefaults) {
    if (json::find(text.full, each.name) == nullptr) text.full[each.name] = each.value;
  }
  if (json::find(text.full, "layer_types") == nullptr) {
    TRY(text.full["layer_types"], layer_types(text.full));
  }
  TRY(const double theta, json::get_double_or(text.full, "rope_local_base_freq", kWindowTheta));
  text.window_rope["rope_theta"] = theta;
  const json::value* rope = json::find(text.full, "rope_parameters");
  if (rope == nullptr || !rope->is_object()) return text;
  const json::object parameters = rope->get_object();
  if (const json::value* window = json::find(parameters, "sliding_attention"))
    text.window_rope["rope_parameters"] = *window;
  if (const json::value* full = json::find(parameters, "full_attention"))
    text.full["rope_parameters"] = *full;
  return text;
}

Result<DecoderConfig> parse_text(const json::object& config) {
  TRY(const TextConfig text, written_out(config));
  TRY(DecoderConfig decoder, parse_decoder(text.full, kDefaults));
  for (const std::string_view field : {"attention_bias", "use_bidirectional_attention",
                                       "attn_logit_softcapping", "final_logit_softcapping"}) {
    const json::value* found = json::find(text.full, field);
    if (found != nullptr && *found != json::value(false))
      return fail(ErrorCode::kUnsupported, "text_config.{} is not done", field);
  }
  DecoderSettings& s = decoder.settings;
  TRY(s.tied_head, has_tied_head(config, kDefaults));
  s.norm.weight_offset = 1;
  s.qk_norm = true;
  s.post_norms = true;
  s.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(s.hidden)));
  s.round_embedding_scale = true;
  TRY(const double scalar, json::get_double_or(text.full, "query_pre_attn_scalar", 256));
  if (!(scalar > 0))
    return fail(ErrorCode::kInvalid, "text_config.query_pre_attn_scalar is {}", scalar);
  s.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  TRY(RopeConfig rope, parse_rope(text.window_rope, s.head_dim,
                                  {.rope_theta = kWindowTheta, .head_dim = s.head_dim}));
  if (rope.settings.short_length > 0 || rope.settings.ntk_factor > 0 || rope.position_axes != 1)
    return fail(ErrorCode::kUnsupported,
                "rope_parameters.sliding_attention of a type that goes by the length is not done");
  s.window_rope = std::move(rope.settings);
  return decoder;
}

DecoderNames text_names(const std::string& model) {
  DecoderNames names = DecoderNames::under(model + "model.");
  names.post_attention_norm = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.post_mlp_norm = "post_feedforward_layernorm";
  return names;
}

// --- images ---

// What becomes of a square image: patches a side, averaged in squares to tokens a side.
struct ImageShape {
  TileTowerSettings tower;
  std::int64_t tokens_side = 0;

  std::int64_t pool() const { return tower.side() / tokens_side; }
  std::int64_t tokens() const { return tokens_side * tokens_side; }
};

Result<ImageShape> parse_images(const json::object& config) {
  ImageShape shape;
  TRY(shape.tower, parse_siglip(config));
  TRY(const std::int64_t tokens, json::get_int_or(config, "mm_tokens_per_image", 256));
  while (shape.tokens_side * shape.tokens_side < tokens && shape.tokens_side < (1 << 12))
    ++shape.tokens_side;
  // The reference's average drops what its squares leave over; no published size has any.
  if (tokens < 1 || shape.tokens() != tokens || shape.tower.side() % shape.tokens_side != 0)
    return fail(ErrorCode::kUnsupported,
                "mm_tokens_per_image {} is no square that divides {} x {} patches", tokens,
                shape.tower.side(), shape.tower.side());
  return shape;
}

// --- vision ---

class Gemma3Tower final : public TileTower {
 public:
  Gemma3Tower(const ImageShape& shape, std::int64_t out)
      : TileTower(shape.tower),
        out_(out),
        taps_(shape.pool() * shape.pool()),
        averages_(static_cast<std::size_t>(shape.tower.patches()), 1 / static_cast<float>(taps_)) {
    const std::int64_t pool = shape.pool();
    for (std::int64_t row = 0; row < shape.tokens_side; ++row) {
      for (std::int64_t col = 0; col < shape.tokens_side; ++col) {
        for (std::int64_t i = 0; i < taps_; ++i)
          rows_.push_back(static_cast<std::int32_t>((row * pool + i / pool) * shape.tower.side() +
                                                    col * pool + i % pool));
      }
    }
  }

 protected:
  void add_projector(WeightTable& table) override {
    style_ = {.epsilon = settings().norm.epsilon, .weight_offset = 1, .subtract_mean = false};
    add_norm(table, norm_, "multi_modal_projector.mm_soft_emb_norm", settings().width, style_);
    table.transposed(projector_, "multi_modal_projector.mm_input_projection_weight", out_,
                     settings().width);
  }
  void add_projector_scratch(Scratch& scratch, DType type, std::int64_t) override {
    const std::int64_t tokens = settings().patches() / taps_;
    scratch.add(pooled_, type, tokens, settings().width);
    scratch.add(projected_, type, tokens, out_);
  }
  void project(WorkList& works, Stream& stream, const ImageLayout&, View features, View out,
               const Tap& tap) const override {
    works.add({.units = out.rows(),
               .unit_cost = row_cost(projector_) +
                            static_cast<double>(taps_) * static_cast<double>(settings().width),
               .run = [=, this, &stream, &tap](std::int64_t begin, std::int64_t end) {
                 const View pooled = pooled_.row_range(begin, end);
                 const View projected = projected_.row_range(begin, end);
                 const auto first = static_cast<std::size_t>(begin * taps_);
                 const auto count = static_cast<std::size_t>((end - begin) * taps_);
                 stream.mix_rows(
                     {.x = features,
                      .rows = stream.upload(std::span(rows_).subspan(first, count)),
                      .weights = stream.upload(std::span(averages_).subspan(first, count)),
                      .taps = taps_,
                      .out = pooled});
                 apply_norm(stream, norm_, style_, pooled, pooled);
                 apply_linear(stream, projector_, pooled, projected);
                 stream.copy(projected, out.row_range(begin, end));
                 show(tap, stream, "vision.merged", projected);
               }});
  }

 private:
  std::int64_t out_;
  std::int64_t taps_;               // patches that become a token
  std::vector<float> averages_;     // [patches] of the average
  std::vector<std::int32_t> rows_;  // [tokens, taps]
  NormStyle style_;
  Norm norm_;
  Linear projector_;
  View pooled_;     // [tokens, width]
  View projected_;  // [tokens, text width]
};

// --- the models ---

constexpr std::string_view kImage = "<start_of_image>";
constexpr std::string_view kWrittenImage =
    "\n\n<start_of_image><image_soft_token><end_of_image>\n\n";
// Without their ends, so that build_prompt does not find a guarded one either.
constexpr std::array<std::string_view, 3> kLiterals = {"<start_of_image", "<image_soft_token",
                                                       "<end_of_image"};

const PlaceholderWords kWords = {
    .literals = kLiterals, .image = kImage, .chat_template = kGemma3Template};

class Gemma3Processor final : public ImageProcessor {
 public:
  Gemma3Processor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                  TokenId image_token)
      : ImageProcessor(std::move(shape), kWords, std::move(images)), image_token_(image_token) {}

  // The processor writes blank lines and the soft token around each image before it tokenises.
  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    std::string text(rendered);
    for (std::size_t at = text.find(kImage); at != std::string::npos;
         at = text.find(kImage, at + kWrittenImage.size()))
      text.replace(at, kImage.size(), kWrittenImage);
    TRY(Prompt prompt,
        expand_images(encode_guarded(tokenizer, text, add_special_tokens), image_token_, images));
    for (const ImageSpan& image : prompt.images)
      prompt.both_ways.push_back({image.begin, image.begin + image.tokens});
    return prompt;
  }

 private:
  TokenId image_token_ = 0;
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig text, parse_text(checkpoint.config));
  if (json::find(checkpoint.config, "vision_config") == nullptr)
    return make_text_model("gemma-3", checkpoint, std::move(text), text_names(""));
  TRY(const ImageShape image, parse_images(checkpoint.config));
  TRY(const bool crops, json::get_bool_or(checkpoint.preprocessor, "do_pan_and_scan", false));
  if (crops)
    return fail(ErrorCode::kUnsupported, "preprocessor_config.json: do_pan_and_scan is not done");
  TRY(SquareImages squares,
      SquareImages::parse(checkpoint.preprocessor, image.tower, image.tokens(), kNormalize,
                          ResampleFilter::kBilinear));
  TRY(const TokenId token,
      media_token(checkpoint.config, {{"image_token_id", "image_token_index"}, 262144},
                  text.settings.vocab));
  const std::int64_t hidden = text.settings.hidden;
  TRY(ModelShape shape, describe_model("gemma-3", checkpoint, text));
  auto images = std::make_unique<const SquareImages>(std::move(squares));
  describe_images(*images, shape);
  return UnloadedModel{
      std::make_unique<Gemma3Processor>(shape, std::move(images), token),
      make_network(std::move(shape), std::move(text.settings), text_names("language_model."),
                   std::make_unique<Gemma3Tower>(image, hidden))};
}

// --- what checkpoints call themselves ---

// Text checkpoints keep their names: "model.".
constexpr auto kAliases = siglip_aliases({"language_model.lm_head.", "lm_head."});

}  // namespace
}  // namespace gemma3

extern const Family kGemma3;
const Family kGemma3 = {.name = "gemma-3",
                        .architectures = {"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"},
                        .model_types = {"gemma3", "gemma3_text"},
                        .aliases = gemma3::kAliases,
                        .create = gemma3::create};

}  // namespace saccade
