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

#include "base/check.h"
#include "model/families/qwen_dummy.h"
#include "model/placeholders.h"
#include "model/preprocessor_config.h"
#include "model/tile_tower.h"

namespace saccade {
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
  DecoderNames names;
  names.embedding = "language_model.model.embed_tokens";
  names.layer = "language_model.model.layers.{}.";
  names.norm = "language_model.model.norm";
  names.head = "language_model.lm_head";
  if (second) {
    names.post_attention_norm = "post_attention_layernorm";
    names.mlp_norm = "pre_feedforward_layernorm";
    names.post_mlp_norm = "post_feedforward_layernorm";
  }
  return names;
}

// --- images ---

class SquareImages final : public ImagePipeline {
 public:
  SquareImages(TileTowerSettings tower, const NormalizeTable& normalize, ResampleFilter filter)
      : tower_(std::move(tower)),
        cutter_(std::make_shared<TileRows>(tower_, normalize)),
        filter_(filter) {}

  // There is one size: bounds of pixels and tokens change nothing.
  Result<ImageLayout> layout(int width, int height, const ImageControls& controls) const override {
    TRY_DO(check_processor_kwargs(controls, {}));
    const auto side = static_cast<int>(tower_.image);
    return ImageLayout{.width = width,
                       .height = height,
                       .resized_width = side,
                       .resized_height = side,
                       .grid_t = 1,
                       .grid_h = tower_.side(),
                       .grid_w = tower_.side(),
                       .tokens = tower_.patches(),
                       .key = fmt::format("{}", side)};
  }
  Pixels resized(const Pixels& pixels, const ImageLayout& layout) const override {
    return resize(pixels, layout.resized_width, layout.resized_height, filter_);
  }
  std::shared_ptr<const PatchCutter> cutter() const override { return cutter_; }
  std::int64_t max_patches() const override { return tower_.patches(); }
  std::int64_t max_tokens() const override { return tower_.patches(); }

 private:
  TileTowerSettings tower_;
  std::shared_ptr<const PatchCutter> cutter_;
  ResampleFilter filter_;
};

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
  void project(Stream& stream, const ImageLayout& layout, View features, View out,
               const Tap& tap) const override {
    for (std::int64_t begin = 0; begin < layout.tokens; begin += kMlpRows) {
      const std::int64_t end = std::min(begin + kMlpRows, layout.tokens);
      const View part = projected_.row_range(0, end - begin);
      apply_linear(stream, projector_, features.row_range(begin, end), part);
      stream.copy(part, out.row_range(begin, end));
      show(tap, stream, "vision.merged", part);
    }
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

class Paligemma final : public ImageModel {
 public:
  static Result<std::unique_ptr<LoadableModel>> create(const Checkpoint& checkpoint) {
    auto model = std::make_unique<Paligemma>();
    TRY(DecoderConfig text, parse_text(checkpoint.config));
    TRY(TileTowerSettings tower, parse_siglip(checkpoint.config));
    TRY_DO(require_image_steps(checkpoint.preprocessor));
    TRY(const int side, parse_square_size(checkpoint.preprocessor, static_cast<int>(tower.image)));
    if (side != tower.image)
      return fail(ErrorCode::kInvalid,
                  "preprocessor_config.json makes images of {} pixels, vision_config of {}", side,
                  tower.image);
    TRY(const NormalizeTable normalize, parse_normalize(checkpoint.preprocessor, kNormalize));
    TRY(const ResampleFilter filter,
        parse_resample(checkpoint.preprocessor, ResampleFilter::kBicubic));
    TRY(std::int64_t token, json::get_int_or(checkpoint.config, "image_token_index", 256000));
    TRY(token, json::get_int_or(checkpoint.config, "image_token_id", token));
    if (token < 0 || token >= text.settings.vocab)
      return fail(ErrorCode::kUnsupported, "image_token_index {} is outside the vocabulary of {}",
                  token, text.settings.vocab);
    model->image_token_ = static_cast<TokenId>(token);
    const std::int64_t hidden = text.settings.hidden;
    const bool second = is_gemma2(checkpoint.config);
    TRY_DO(model->assemble(checkpoint,
                           {.family = second ? "paligemma2" : "paligemma",
                            .decoder = std::move(text),
                            .names = text_names(second),
                            .images = std::make_unique<SquareImages>(tower, normalize, filter),
                            .tower = std::make_unique<PaligemmaTower>(tower, hidden)}));
    return model;
  }

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    return expand_images(encode_guarded(tokenizer, rendered, add_special_tokens), image_token_,
                         images);
  }

  // Positions count from 1, and the whole prompt attends both ways.
  Result<Prompt> wrap_tokens(std::vector<TokenId> ids) const override {
    TRY(Prompt prompt, Model::wrap_tokens(std::move(ids)));
    for (auto& axis : prompt.positions) {
      for (std::int32_t& position : axis) ++position;
    }
    prompt.position_delta = 1;
    prompt.bidirectional_prefix = static_cast<std::int64_t>(prompt.ids.size());
    return prompt;
  }

  std::string guard_literals(std::string_view user_text) const override {
    return guard(user_text, kPlaceholders);
  }
  std::string image_placeholder(int) const override { return "<image>"; }
  std::string_view default_chat_template() const override { return kPromptFormat; }

 private:
  TokenId image_token_ = 0;
};

// --- checkpoints of random weights ---

struct DummySize {
  std::string_view name;
  bool second;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  std::int64_t vocab, image_token;
  std::int64_t depth, width, inner, vision_heads, image;
};
constexpr DummySize first(std::string_view name, std::int64_t image) {
  return {name, false, 2048, 16384, 18, 8, 1, 256, 257216, 257152, 27, 1152, 4304, 16, image};
}
constexpr DummySize second_3b(std::string_view name, std::int64_t image) {
  return {name, true, 2304, 9216, 26, 8, 4, 256, 257216, 257152, 27, 1152, 4304, 16, image};
}
constexpr DummySize second_10b(std::string_view name, std::int64_t image) {
  return {name, true, 3584, 14336, 42, 16, 8, 256, 257216, 257152, 27, 1152, 4304, 16, image};
}
constexpr std::array kDummySizes = {
    DummySize{"tiny", false, 64, 256, 4, 4, 1, 32, 1280, 1200, 3, 64, 152, 4, 56},
    DummySize{"tiny", true, 64, 256, 4, 4, 2, 32, 1280, 1200, 3, 64, 152, 4, 56},
    first("3b-224", 224),
    first("3b-448", 448),
    first("3b-896", 896),
    second_3b("3b-224", 224),
    second_3b("3b-448", 448),
    second_3b("3b-896", 896),
    second_10b("10b-224", 224),
    second_10b("10b-448", 448),
    second_10b("10b-896", 896),
};
constexpr std::array<std::string_view, 4> kDummyNames = {"tiny", "3b-224", "3b-448", "3b-896"};
constexpr std::array<std::string_view, 7> kDummyNames2 = {"tiny",    "3b-224",  "3b-448", "3b-896",
                                                          "10b-224", "10b-448", "10b-896"};

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  const std::string_view gemma2 =
      R"("attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256,
  "sliding_window": 4096, )";
  return fmt::format(
      R"({{"architectures": ["PaliGemmaForConditionalGeneration"], "model_type": "paligemma",
 "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "image_token_index": {image_token},
 "hidden_size": {projection}, "projection_dim": {hidden}, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
 "text_config": {{{gemma2}"head_dim": {head_dim}, "{activation}": "gelu_pytorch_tanh", "hidden_size": {hidden},
  "intermediate_size": {intermediate}, "model_type": "{type}", "num_attention_heads": {heads},
  "num_hidden_layers": {layers}, "num_key_value_heads": {kv_heads}, "tie_word_embeddings": true, "vocab_size": {vocab}}},
 "vision_config": {{"hidden_act": "gelu_pytorch_tanh", "hidden_size": {width}, "image_size": {image},
  "intermediate_size": {inner}, "model_type": "siglip_vision_model", "num_attention_heads": {vision_heads},
  "num_hidden_layers": {depth}, "patch_size": 14, "projection_dim": {hidden}, "vision_use_head": false}}}}
)",
      arg("image_token", s.image_token), arg("projection", s.hidden), arg("hidden", s.hidden),
      arg("gemma2", s.second ? gemma2 : ""), arg("head_dim", s.head_dim),
      arg("activation", s.second ? "hidden_activation" : "hidden_act"),
      arg("intermediate", s.intermediate), arg("type", s.second ? "gemma2" : "gemma"),
      arg("heads", s.heads), arg("layers", s.layers), arg("kv_heads", s.kv_heads),
      arg("vocab", s.vocab), arg("width", s.width), arg("image", s.image), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("depth", s.depth));
}

Result<DummyCheckpoint> dummy_of(bool second, std::string_view size) {
  const auto found = std::ranges::find_if(kDummySizes, [&](const DummySize& each) {
    return each.name == size && each.second == second;
  });
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json", R"({"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0})"},
      {"preprocessor_config.json",
       fmt::format(
           R"({{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "image_seq_length": {1}, "resample": 3, )"
           R"("size": {{"height": {0}, "width": {0}}}, "image_processor_type": "SiglipImageProcessor", )"
           R"("processor_class": "PaliGemmaProcessor"}})",
           found->image, (found->image / 14) * (found->image / 14))}};
  checkpoint.tokenizer_pieces = found->image_token;
  checkpoint.special_tokens = {{0, "<pad>"},
                               {1, "<eos>"},
                               {2, "<bos>"},
                               {static_cast<TokenId>(found->image_token), "<image>"}};
  checkpoint.tokenizer_pattern = kQwenPattern;
  checkpoint.tokenizer_class = "GemmaTokenizer";
  checkpoint.tokenizer_options.begin = "<bos>";
  checkpoint.end_token = "<eos>";
  checkpoint.pad_token = "<pad>";
  return checkpoint;
}
Result<DummyCheckpoint> dummy(std::string_view size) { return dummy_of(false, size); }
Result<DummyCheckpoint> dummy2(std::string_view size) { return dummy_of(true, size); }

// --- what checkpoints call themselves ---

constexpr std::array<std::string_view, 1> kArchitectures = {"PaliGemmaForConditionalGeneration"};
constexpr std::array<std::string_view, 1> kModelTypes = {"paligemma"};
// Current transformers' names to the hub's; in between, the tower lost and kept a level.
constexpr std::array kAliases = {
    NameAlias{"vision_tower.vision_model.", "vision_tower.vision_model."},
    NameAlias{"vision_tower.", "vision_tower.vision_model."},
    NameAlias{"model.language_model.", "language_model.model."},
    NameAlias{"lm_head.", "language_model.lm_head."},
    NameAlias{"model.vision_tower.vision_model.", "vision_tower.vision_model."},
    NameAlias{"model.vision_tower.", "vision_tower.vision_model."},
    NameAlias{"model.multi_modal_projector.", "multi_modal_projector."}};

}  // namespace

extern const Family kPaligemma;
const Family kPaligemma = {.name = "paligemma",
                           .architectures = kArchitectures,
                           .model_types = kModelTypes,
                           .aliases = kAliases,
                           .sizes = kDummyNames,
                           .accepts = is_gemma,
                           .create = Paligemma::create,
                           .dummy = dummy};
extern const Family kPaligemma2;
const Family kPaligemma2 = {.name = "paligemma2",
                            .architectures = kArchitectures,
                            .model_types = kModelTypes,
                            .aliases = kAliases,
                            .sizes = kDummyNames2,
                            .accepts = is_gemma2,
                            .create = Paligemma::create,
                            .dummy = dummy2};

}  // namespace saccade
