// PaliGemma (3B) and PaliGemma 2 (3B, 10B) at 224, 448 and 896 pixels. Reference: transformers'
// models/paligemma, gemma and gemma2; papers arXiv:2407.07726, arXiv:2412.03555.
//
// Three odd things:
//  - Image and prompt attend both ways; only the answer is causal. Inside the prefix that holds in
//    layers with a window too.
//  - An image is squeezed to a square, whatever its shape, and the prompt is all images, then
//  <bos>,
//    the text and a newline: no chat. Positions begin at 1.
//  - Gemma scales its text embeddings by sqrt(hidden), not the image's; norms multiply by 1 + w.
#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <cmath>
#include <utility>

#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/images/image_processor.h"
#include "model/images/square_images.h"
#include "model/prompts/placeholders.h"
#include "model/text_network.h"
#include "model/towers/tile_tower.h"

namespace saccade {
namespace paligemma {
namespace {

// --- configuration ---

constexpr DecoderDefaults kGemma = {.norm_epsilon = 1e-6,
                                    .rope_theta = 10000,
                                    .max_position = 8192,
                                    .tied_head = true,
                                    .head_dim = 256,
                                    .activation = "gelu_pytorch_tanh",
                                    .alternate_windows = false};
constexpr DecoderDefaults kGemma2 = {.norm_epsilon = 1e-6,
                                     .rope_theta = 10000,
                                     .max_position = 8192,
                                     .sliding_window = 4096,
                                     .tied_head = true,
                                     .head_dim = 256,
                                     .activation = "gelu_pytorch_tanh",
                                     .alternate_windows = true};
constexpr NormalizeSettings kNormalize = {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};

bool is_gemma2(const json::object& config) {
  const json::value* type = json::find(text_section(config), "model_type");
  return type != nullptr && type->is_string() && type->get_string() == "gemma2";
}
bool is_gemma(const json::object& config) { return !is_gemma2(config); }

// A cap that is there as null is off.
Result<float> softcap(const json::object& text, std::string_view name, double fallback) {
  const json::value* found = text.if_contains(name);
  if (found != nullptr && found->is_null()) return 0.0f;
  TRY(const double cap, json::get_double_or(text, name, fallback));
  return static_cast<float>(cap);
}

Result<DecoderConfig> parse_text(const json::object& config) {
  const bool second = is_gemma2(config);
  TRY(DecoderConfig decoder, parse_decoder(config, second ? kGemma2 : kGemma));
  const json::object& text = text_section(config);
  TRY(const bool biased, json::get_bool_or(text, "attention_bias", false));
  if (biased) return fail(ErrorCode::kUnsupported, "text_config.attention_bias is not done");
  DecoderSettings& s = decoder.settings;
  s.norm.weight_offset = 1;
  s.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(s.hidden)));
  s.round_embedding_scale = true;
  if (!second) return decoder;
  s.post_norms = true;
  TRY(const double scalar, json::get_double_or(text, "query_pre_attn_scalar", 256));
  if (!(scalar > 0))
    return fail(ErrorCode::kInvalid, "text_config.query_pre_attn_scalar is {}", scalar);
  s.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  TRY(s.attention_softcap, softcap(text, "attn_logit_softcapping", 50));
  TRY(s.logit_softcap, softcap(text, "final_logit_softcapping", 30));
  return decoder;
}

DecoderNames text_names(bool second) {
  DecoderNames names = DecoderNames::under("language_model.model.", "language_model.lm_head");
  if (second) {
    names.post_attention_norm = "post_attention_layernorm";
    names.mlp_norm = "pre_feedforward_layernorm";
    names.post_mlp_norm = "post_feedforward_layernorm";
  }
  return names;
}

// --- vision ---

class PaligemmaTower final : public TileTower {
 public:
  PaligemmaTower(TileTowerSettings tower, std::int64_t out)
      : TileTower(std::move(tower)), out_(out) {}

 protected:
  void add_projector(WeightTable& table) override {
    table.linear(projector_, "multi_modal_projector.linear", out_, settings().width, Bias::kYes);
  }
  void add_projector_scratch(Scratch& scratch, DType type, std::int64_t patch_rows) override {
    scratch.add(projected_, type, std::min(patch_rows, kMlpRows), out_);
  }
  void project(WorkList& works, Stream& stream, const ImageLayout& layout, View features, View out,
               const Tap& tap) const override {
    works.add({.units = layout.tokens,
               .unit_cost = row_cost(projector_),
               .run = [=, this, &stream, &tap](std::int64_t begin, std::int64_t end) {
                 for (; begin < end; begin += kMlpRows) {
                   const std::int64_t last = std::min(begin + kMlpRows, end);
                   const View part = projected_.row_range(0, last - begin);
                   apply_linear(stream, projector_, features.row_range(begin, last), part);
                   stream.copy(part, out.row_range(begin, last));
                   show(tap, stream, "vision.merged", part);
                 }
               }});
  }

 private:
  std::int64_t out_;
  Linear projector_;
  View projected_;  // [kMlpRows, text width]
};

// --- the model ---

constexpr std::array<std::string_view, 1> kPlaceholders = {"<image>"};

// What the reference's processor makes of images and a text; several messages stand on lines of
// their own.
constexpr std::string_view kPromptFormat =
    R"({%- for message in messages -%}
{%- if message.content is not string -%}
{%- for part in message.content -%}{%- if part.type in ['image', 'image_url'] -%}{{- '<image>' -}}{%- endif -%}{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{{- '<bos>' -}}
{%- for message in messages -%}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}{%- if part.type == 'text' -%}{{- part.text -}}{%- endif -%}{%- endfor -%}
{%- endif -%}
{{- '\n' -}}
{%- endfor -%}
)";

constexpr PlaceholderWords kWords = {
    .literals = kPlaceholders, .image = "<image>", .chat_template = kPromptFormat};

class PaligemmaProcessor final : public ImageProcessor {
 public:
  PaligemmaProcessor(ModelShape shape, std::unique_ptr<const ImagePipeline> images,
                     TokenId image_token)
      : ImageProcessor(std::move(shape), kWords, std::move(images)), image_token_(image_token) {}

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    return expand_images(encode_guarded(tokenizer, rendered, add_special_tokens), image_token_,
                         images);
  }

  // Positions count from 1, and the whole prompt attends both ways.
  Result<Prompt> wrap_tokens(std::vector<TokenId> ids) const override {
    TRY(Prompt prompt, Processor::wrap_tokens(std::move(ids)));
    for (auto& axis : prompt.positions) {
      for (std::int32_t& position : axis) ++position;
    }
    prompt.position_delta = 1;
    prompt.bidirectional_prefix = static_cast<std::int64_t>(prompt.ids.size());
    return prompt;
  }

 private:
  TokenId image_token_ = 0;
};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig text, parse_text(checkpoint.config));
  TRY(TileTowerSettings tower, parse_siglip(checkpoint.config));
  TRY(SquareImages squares, SquareImages::parse(checkpoint.preprocessor, tower, tower.patches(),
                                                kNormalize, ResampleFilter::kBicubic));
  TRY(const TokenId token,
      media_token(checkpoint.config, {{"image_token_id", "image_token_index"}, 256000},
                  text.settings.vocab));
  const std::int64_t hidden = text.settings.hidden;
  const bool second = is_gemma2(checkpoint.config);
  TRY(ModelShape shape, describe_model(second ? "paligemma2" : "paligemma", checkpoint, text));
  auto images = std::make_unique<const SquareImages>(std::move(squares));
  describe_images(*images, shape);
  return UnloadedModel{std::make_unique<PaligemmaProcessor>(shape, std::move(images), token),
                       make_network(std::move(shape), std::move(text.settings), text_names(second),
                                    std::make_unique<PaligemmaTower>(tower, hidden))};
}

// --- what checkpoints call themselves ---

constexpr auto kAliases = siglip_aliases({"lm_head.", "language_model.lm_head."});

}  // namespace
}  // namespace paligemma

extern const Family kPaligemma;
const Family kPaligemma = {.name = "paligemma",
                           .architectures = {"PaliGemmaForConditionalGeneration"},
                           .model_types = {"paligemma"},
                           .aliases = paligemma::kAliases,
                           .accepts = paligemma::is_gemma,
                           .create = paligemma::create};
extern const Family kPaligemma2;
const Family kPaligemma2 = {.name = "paligemma2",
                            .architectures = {"PaliGemmaForConditionalGeneration"},
                            .model_types = {"paligemma"},
                            .aliases = paligemma::kAliases,
                            .accepts = paligemma::is_gemma2,
                            .create = paligemma::create};

}  // namespace saccade
