// Qwen2-VL (2B, 7B, 72B). Reference: transformers' models/qwen2_vl; paper arXiv:2409.12191.
//
// Three odd things:
//  - Images keep nearly their own size: sides are rounded to multiples of 28 and cut into 14-pixel
//    patches; every 2 x 2 of them become one token, and rows stand in that order from the start.
//  - A still image is two equal frames to the patch embedding (a Conv3d over 2 x 14 x 14).
//  - Positions have three axes (M-RoPE): the frequencies of a head are split among time, row and
//    column; text moves along all three alike.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/blocks.h"
#include "model/decoder_config.h"
#include "model/family.h"
#include "model/patch_images.h"
#include "model/placeholders.h"
#include "model/scratch.h"
#include "model/text_decoder.h"

namespace saccade {
namespace {

// --- configuration ---

struct VisionConfig {
  std::int64_t depth = 32;
  std::int64_t embed = 1280;
  std::int64_t heads = 16;
  std::int64_t mlp_ratio = 4;
  std::int64_t channels = 3;
  std::int64_t patch = 14;
  std::int64_t merge = 2;
  std::int64_t frames = 2;  // temporal_patch_size
  double rope_theta = 10000;
  Activation activation = Activation::kQuickGelu;

  std::int64_t head_dim() const { return embed / heads; }
  std::int64_t merged() const { return embed * merge * merge; }
};

constexpr DecoderDefaults kTextDefaults = {.norm_epsilon = 1e-5,
                                           .rope_theta = 1e6,
                                           .max_position = 32768,
                                           .sliding_window = 4096,
                                           .max_window_layers = 80,
                                           .tied_head = false};
constexpr NormStyle kVisionNorm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};

Result<VisionConfig> parse_vision(const json::object& config) {
  const json::value* section = json::find(config, "vision_config");
  if (section == nullptr || !section->is_object())
    return fail(ErrorCode::kInvalid, "vision_config is missing");
  const json::object& vision = section->get_object();
  VisionConfig v;
  struct Field {
    const char* name;
    std::int64_t* into;
    std::int64_t most;
  };
  for (const Field field :
       {Field{"depth", &v.depth, 1024}, Field{"embed_dim", &v.embed, 1 << 16},
        Field{"num_heads", &v.heads, 1024}, Field{"mlp_ratio", &v.mlp_ratio, 64},
        Field{"in_channels", &v.channels, 3}, Field{"patch_size", &v.patch, 256},
        Field{"spatial_merge_size", &v.merge, 16}, Field{"temporal_patch_size", &v.frames, 16}}) {
    TRY(*field.into, json::get_int_or(vision, field.name, *field.into));
    if (*field.into < 1 || *field.into > field.most)
      return fail(ErrorCode::kInvalid, "vision_config.{} is {}, 1 to {} is possible", field.name,
                  *field.into, field.most);
  }
  if (v.channels != 3 || v.embed % v.heads != 0 || v.head_dim() % 8 != 0)
    return fail(ErrorCode::kUnsupported, "vision_config: {} channels, embed_dim {} in {} heads",
                v.channels, v.embed, v.heads);
  TRY(const std::string activation, json::get_string_or(vision, "hidden_act", "quick_gelu"));
  TRY(v.activation, parse_activation(activation));
  if (const json::value* rope = json::find(vision, "rope_parameters");
      rope != nullptr && rope->is_object()) {
    TRY(v.rope_theta, json::get_double_or(rope->get_object(), "rope_theta", v.rope_theta));
  }
  return v;
}

// --- vision ---

// The encoder: patches of all images of a run side by side, each frame attending within itself.
struct Vision {
  VisionConfig config;
  Linear patch_embed;
  std::vector<VisionBlock> blocks;
  Norm merger_norm;
  Linear merger_in;
  Linear merger_out;
  DType compute = DType::kF32;

  // Both halves of a head turn alike: its first quarter by the patch's row, the next by its column.
  std::vector<float> inv_freq;
  std::vector<std::uint8_t> axis;

  Scratch memory;
  VisionScratch scratch;
  View patches;  // [kMlpRows, patch values]
  View hidden;   // [patches of a run, embed]
  View cos;
  View sin;
  View merged;  // [kMlpRows / merge^2, text width]

  void add_weights(WeightTable& table, std::int64_t text_hidden);
  Result<void> reserve(Backend& backend, std::int64_t patch_rows, std::int64_t text_hidden);
};

void Vision::add_weights(WeightTable& table, std::int64_t text_hidden) {
  const VisionConfig& v = config;
  const std::int64_t inner = v.embed * v.mlp_ratio;
  blocks.resize(static_cast<std::size_t>(v.depth));
  table.patches(patch_embed, "visual.patch_embed.proj",
                {v.embed, v.channels, v.frames, v.patch, v.patch}, Bias::kNo);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    VisionBlock& block = blocks[i];
    const std::string at = fmt::format("visual.blocks.{}.", i);
    add_norm(table, block.attention_norm, at + "norm1", v.embed, kVisionNorm);
    table.linear(block.qkv, at + "attn.qkv", 3 * v.embed, v.embed, Bias::kYes);
    table.linear(block.attention_out, at + "attn.proj", v.embed, v.embed, Bias::kYes);
    add_norm(table, block.mlp_norm, at + "norm2", v.embed, kVisionNorm);
    table.linear(block.mlp_in, at + "mlp.fc1", inner, v.embed, Bias::kYes);
    table.linear(block.mlp_out, at + "mlp.fc2", v.embed, inner, Bias::kYes);
  }
  add_norm(table, merger_norm, "visual.merger.ln_q", v.embed, kVisionNorm);
  table.linear(merger_in, "visual.merger.mlp.0", v.merged(), v.merged(), Bias::kYes);
  table.linear(merger_out, "visual.merger.mlp.2", text_hidden, v.merged(), Bias::kYes);
}

Result<void> Vision::reserve(Backend& backend, std::int64_t patch_rows, std::int64_t text_hidden) {
  const VisionConfig& v = config;
  const DType type = backend.activation_dtype();
  inv_freq = rope_frequencies(v.rope_theta, v.head_dim() / 2);
  const std::size_t quarter = inv_freq.size();
  inv_freq.insert(inv_freq.end(), inv_freq.begin(),
                  inv_freq.begin() + static_cast<std::ptrdiff_t>(quarter));
  axis.assign(quarter, 0);
  axis.resize(2 * quarter, 1);

  const std::int64_t slice = std::min(patch_rows, kMlpRows);
  memory.add(patches, type, slice, v.channels * v.frames * v.patch * v.patch);
  memory.add(hidden, type, patch_rows, v.embed);
  memory.add(cos, DType::kF32, patch_rows, static_cast<std::int64_t>(inv_freq.size()));
  memory.add(sin, DType::kF32, patch_rows, static_cast<std::int64_t>(inv_freq.size()));
  memory.add(scratch.normed, type, patch_rows, v.embed);
  memory.add(scratch.qkv, type, patch_rows, 3 * v.embed);
  memory.add(scratch.attention, type, patch_rows, v.embed);
  memory.add(scratch.mlp, type, slice, v.embed * v.mlp_ratio);
  memory.add(merged, type, slice, text_hidden);
  return memory.allocate(backend);
}

class Qwen2VlEncodeRun final : public EncodeRun {
 public:
  Qwen2VlEncodeRun(Backend& backend, const Vision& vision,
                   std::span<const PreparedImage* const> images, std::span<const View> out, Tap tap)
      : backend_(backend),
        vision_(vision),
        images_(images.begin(), images.end()),
        out_(out.begin(), out.end()),
        tap_(std::move(tap)) {
    for (const PreparedImage* image : images_) place(image->layout);
    const std::int64_t rows = begins_.back();
    CHECK(rows <= vision_.hidden.rows(), "{} patches, {} reserved", rows, vision_.hidden.rows());
    hidden_ = vision_.hidden.row_range(0, rows);
    cos_ = vision_.cos.row_range(0, rows);
    sin_ = vision_.sin.row_range(0, rows);
  }

  bool advance() override {
    const std::size_t stage = stage_++;
    if (stage == 0) {
      embed_patches();
    } else if (stage <= vision_.blocks.size()) {
      layer(stage - 1);
    } else {
      merge();
    }
    return stage > vision_.blocks.size();
  }

 private:
  // Positions of an image's patches in merge order, and a segment for each frame.
  void place(const ImageLayout& layout) {
    const std::int64_t m = vision_.config.merge;
    for (std::int64_t frame = 0; frame < layout.grid_t; ++frame) {
      for (std::int64_t y = 0; y < layout.grid_h; y += m) {
        for (std::int64_t x = 0; x < layout.grid_w; x += m) {
          for (std::int64_t i = 0; i < m * m; ++i) {
            rows_.push_back(static_cast<std::int32_t>(y + i / m));
            columns_.push_back(static_cast<std::int32_t>(x + i % m));
          }
        }
      }
      begins_.push_back(static_cast<std::int32_t>(rows_.size()));
    }
  }

  void embed_patches() {
    std::int64_t row = 0;
    for (const PreparedImage* image : images_) {
      const std::int64_t count = image->layout.grid_t * image->layout.grid_h * image->layout.grid_w;
      const View from(const_cast<float*>(image->patches.data()), DType::kF32, count,
                      image->patch_cols);
      for (std::int64_t begin = 0; begin < count; begin += kMlpRows) {
        const View part = from.row_range(begin, std::min(begin + kMlpRows, count));
        const View patches = vision_.patches.row_range(0, part.rows());
        backend_.copy(part, patches);
        apply_linear(backend_, vision_.patch_embed, patches,
                     hidden_.row_range(row + begin, row + begin + part.rows()));
      }
      row += count;
    }
    const std::array<std::span<const std::int32_t>, 2> positions = {rows_, columns_};
    backend_.rope_table({.positions = positions,
                         .inv_freq = vision_.inv_freq,
                         .axis = vision_.axis,
                         .cos = cos_,
                         .sin = sin_});
    if (tap_) tap_("vision.patch_embed", hidden_);
  }

  void layer(std::size_t index) {
    const VisionConfig& v = vision_.config;
    const VisionBlock& block = vision_.blocks[index];
    const VisionAttention attention = {
        .heads = v.heads,
        .head_dim = v.head_dim(),
        .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(v.head_dim()))),
        .compute = vision_.compute};
    vision_attention(backend_, block, kVisionNorm, attention, begins_, cos_, sin_, vision_.scratch,
                     hidden_);
    vision_mlp(backend_, block, kVisionNorm, v.activation, vision_.scratch, hidden_);
    if (tap_) tap_(fmt::format("vision.layer.{}", index), hidden_);
  }

  // Each merge x merge patches, side by side in a row, through an MLP to one row of the embedding.
  void merge() {
    const VisionConfig& v = vision_.config;
    const std::int64_t square = v.merge * v.merge;
    const std::int64_t slice = std::max(kMlpRows / square * square, square);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const std::int64_t tokens = images_[i]->layout.tokens;
      for (std::int64_t begin = 0; begin < tokens * square; begin += slice) {
        const std::int64_t count = std::min(slice, tokens * square - begin);
        const View part = hidden_.row_range(row + begin, row + begin + count);
        const View normed = vision_.scratch.normed.row_range(0, count);
        const View inner =
            vision_.scratch.attention.row_range(0, count).reshape(count / square, v.merged());
        const View merged = vision_.merged.row_range(0, count / square);
        apply_norm(backend_, vision_.merger_norm, kVisionNorm, part, normed);
        apply_linear(backend_, vision_.merger_in, normed.reshape(count / square, v.merged()), inner,
                     {}, Activation::kGeluErf);
        apply_linear(backend_, vision_.merger_out, inner, merged);
        backend_.copy(merged, out_[i].row_range(begin / square, (begin + count) / square));
        if (tap_) tap_("vision.merged", merged);
      }
      row += tokens * square;
    }
  }

  Backend& backend_;
  const Vision& vision_;
  std::vector<const PreparedImage*> images_;
  std::vector<View> out_;
  Tap tap_;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> columns_;
  std::vector<std::int32_t> begins_{0};
  View hidden_;
  View cos_;
  View sin_;
  std::size_t stage_ = 0;
};

// --- the model ---

constexpr std::array<std::string_view, 2> kPlaceholders = {"<|image_pad|>", "<|video_pad|>"};

class Qwen2Vl final : public LoadableModel {
 public:
  static Result<std::unique_ptr<LoadableModel>> create(const Checkpoint& checkpoint) {
    auto model = std::make_unique<Qwen2Vl>();
    TRY(DecoderConfig text, parse_decoder(checkpoint.config, kTextDefaults));
    if (text.position_axes != 3)
      return fail(ErrorCode::kInvalid, "rope_scaling.mrope_section is missing");
    TRY(model->vision_.config, parse_vision(checkpoint.config));
    TRY(model->images_, PatchImages::parse(checkpoint.preprocessor));
    TRY_DO(model->check_patches());
    TRY(const std::int64_t image_token,
        json::get_int_or(checkpoint.config, "image_token_id", 151655));
    TRY(const std::int64_t video_token,
        json::get_int_or(checkpoint.config, "video_token_id", 151656));
    model->image_token_ = static_cast<TokenId>(image_token);
    model->video_token_ = static_cast<TokenId>(video_token);

    text.settings.qkv_bias = true;
    model->shape_.family = "qwen2-vl";
    describe_decoder(text, model->shape_);
    TRY(model->shape_.eos, eos_tokens(checkpoint));
    model->shape_.has_vision = true;
    model->text_ = TextDecoder(std::move(text.settings));
    return model;
  }

  WeightTable weight_table() override {
    WeightTable table;
    vision_.add_weights(table, shape_.hidden);
    text_.add_weights(table, {});
    return table;
  }

  void set_dtypes(DType compute, DType kv) override {
    vision_.compute = compute;
    text_.set_compute(compute);
    shape_.kv_dtype = kv;
  }

  Result<void> reserve(Backend& backend, const Capacity& capacity) override {
    most_patches_ = capacity.image_patches;
    TRY_DO(text_.reserve(backend, capacity));
    return capacity.image_patches > 0
               ? vision_.reserve(backend, capacity.image_patches, shape_.hidden)
               : Result<void>{};
  }

  std::size_t scratch_bytes() const override {
    return text_.scratch_bytes() + vision_.memory.bytes();
  }

  void forward(Backend& backend, const Batch& batch, const Tap& tap) override {
    text_.forward(backend, batch, tap);
  }

  // --- images ---

  Result<ImageLayout> image_layout(int width, int height,
                                   const ImageControls& controls) const override {
    TRY(ImageLayout layout, images_.layout(width, height, controls));
    const std::int64_t patches = layout.grid_h * layout.grid_w;
    const std::int64_t most = most_patches_ > 0 ? most_patches_ : max_image_patches();
    if (patches > most)
      return fail(ErrorCode::kTooLarge,
                  "an image of {}x{} pixels becomes {} patches, limit {}; a lower max_pixels makes "
                  "it smaller",
                  width, height, patches, most);
    return layout;
  }
  Result<PreparedImage> prepare_image(const Pixels& pixels,
                                      const ImageLayout& layout) const override {
    return images_.prepare(pixels, layout);
  }
  std::int64_t max_image_patches() const override { return images_.max_patches(); }
  std::int64_t max_image_tokens() const override { return images_.max_tokens(); }
  std::unique_ptr<EncodeRun> begin_encode(Backend& backend,
                                          std::span<const PreparedImage* const> images,
                                          std::span<const View> out, const Tap& tap) override {
    return std::make_unique<Qwen2VlEncodeRun>(backend, vision_, images, out, tap);
  }

  // --- prompts ---

  Result<Prompt> build_prompt(const Tokenizer& tokenizer, std::string_view rendered,
                              std::span<const ImageLayout> images,
                              bool add_special_tokens) const override {
    const std::vector<TokenId> ids = encode_guarded(tokenizer, rendered, add_special_tokens);
    if (std::ranges::find(ids, video_token_) != ids.end())
      return fail(ErrorCode::kUnsupported, "the prompt has a video; images are done");
    std::vector<std::int64_t> counts;
    for (const ImageLayout& image : images) counts.push_back(image.tokens);
    TRY(ExpandedPrompt expanded, expand_placeholders(ids, image_token_, counts));
    TRY(Prompt prompt, wrap_tokens(std::move(expanded.ids)));
    prompt.images = std::move(expanded.images);

    GridPositions positions;
    std::int64_t done = 0;
    for (std::size_t i = 0; i < prompt.images.size(); ++i) {
      const ImageSpan& span = prompt.images[i];
      positions.add_text(span.begin - done);
      positions.add_grid(images[i].grid_t, images[i].grid_h / vision_.config.merge,
                         images[i].grid_w / vision_.config.merge);
      done = span.begin + span.tokens;
    }
    positions.add_text(static_cast<std::int64_t>(prompt.ids.size()) - done);
    prompt.position_delta = positions.delta();
    prompt.positions = positions.take();
    return prompt;
  }

  std::string guard_literals(std::string_view user_text) const override {
    return guard(user_text, kPlaceholders);
  }
  std::string image_placeholder(int) const override {
    return "<|vision_start|><|image_pad|><|vision_end|>";
  }

 private:
  // The files agree on what a patch is.
  Result<void> check_patches() const {
    const PatchLayout& p = images_.patches();
    const VisionConfig& v = vision_.config;
    if (p.patch_size != v.patch || p.merge_size != v.merge || p.temporal_patch_size != v.frames)
      return fail(ErrorCode::kInvalid,
                  "preprocessor_config.json cuts patches of {} x {}, merged by {}; vision_config "
                  "of {} x {}, by {}",
                  p.temporal_patch_size, p.patch_size, p.merge_size, v.frames, v.patch, v.merge);
    return {};
  }

  Vision vision_;
  TextDecoder text_;
  PatchImages images_;
  TokenId image_token_ = 0;
  TokenId video_token_ = 0;
  std::int64_t most_patches_ = 0;
};

// --- checkpoints of random weights ---

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads;
  bool tied;
  std::int64_t vocab, pieces;
  std::array<int, 3> sections;
  std::int64_t depth, embed, vision_heads;
};
constexpr std::array kDummySizes = {
    DummySize{"tiny", 128, 256, 4, 4, 2, true, 1280, 1200, {4, 6, 6}, 4, 128, 4},
    DummySize{"2b", 1536, 8960, 28, 12, 2, true, 151936, 151643, {16, 24, 24}, 32, 1280, 16},
    DummySize{"7b", 3584, 18944, 28, 28, 4, false, 152064, 151643, {16, 24, 24}, 32, 1280, 16},
    DummySize{"72b", 8192, 29568, 80, 64, 8, false, 152064, 151643, {16, 24, 24}, 32, 1280, 16},
};
constexpr std::array<std::string_view, 4> kDummyNames = {"tiny", "2b", "7b", "72b"};

// In the order of their ids, from the first after the pieces on.
constexpr std::array kSpecialTokens = {
    "<|endoftext|>",      "<|im_start|>",     "<|im_end|>",     "<|object_ref_start|>",
    "<|object_ref_end|>", "<|box_start|>",    "<|box_end|>",    "<|quad_start|>",
    "<|quad_end|>",       "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>",      "<|video_pad|>"};
constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kChatTemplate =
    R"({%- for message in messages -%}
{%- if loop.first and message.role != 'system' -%}
{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' -}}
{%- endif -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] or 'image' in part -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- elif 'text' in part -%}{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
)";

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl",
 "bos_token_id": {bos}, "eos_token_id": {eos}, "vision_start_token_id": {start}, "vision_end_token_id": {end},
 "vision_token_id": {pad}, "image_token_id": {image}, "video_token_id": {video},
 "hidden_act": "silu", "hidden_size": {hidden}, "intermediate_size": {intermediate}, "num_hidden_layers": {layers},
 "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "max_position_embeddings": 32768,
 "use_sliding_window": false, "sliding_window": 32768, "max_window_layers": {layers}, "rms_norm_eps": 1e-06,
 "rope_theta": 1000000.0, "rope_scaling": {{"type": "mrope", "mrope_section": [{t}, {h}, {w}]}},
 "tie_word_embeddings": {tied}, "torch_dtype": "bfloat16", "vocab_size": {vocab},
 "vision_config": {{"depth": {depth}, "embed_dim": {embed}, "num_heads": {vision_heads}, "mlp_ratio": 4,
  "in_chans": 3, "hidden_size": {hidden}, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
  "temporal_patch_size": 2}}}}
)",
      arg("bos", s.pieces), arg("eos", s.pieces + 2), arg("start", s.pieces + 9),
      arg("end", s.pieces + 10), arg("pad", s.pieces + 11), arg("image", s.pieces + 12),
      arg("video", s.pieces + 13), arg("hidden", s.hidden), arg("intermediate", s.intermediate),
      arg("layers", s.layers), arg("heads", s.heads), arg("kv_heads", s.kv_heads),
      arg("t", s.sections[0]), arg("h", s.sections[1]), arg("w", s.sections[2]),
      arg("tied", s.tied), arg("vocab", s.vocab), arg("depth", s.depth), arg("embed", s.embed),
      arg("vision_heads", s.vision_heads));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(
           R"({{"bos_token_id": {0}, "pad_token_id": {0}, "do_sample": true, "eos_token_id": [{1}, {0}], "temperature": 0.01, "top_p": 0.001, "top_k": 1}})",
           found->pieces, found->pieces + 2)},
      {"preprocessor_config.json",
       R"({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, )"
       R"("image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711], )"
       R"("image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor"})"}};
  checkpoint.chat_template = kChatTemplate;
  checkpoint.tokenizer_pieces = found->pieces;
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i)
    checkpoint.special_tokens.push_back(
        {static_cast<TokenId>(found->pieces) + static_cast<TokenId>(i), kSpecialTokens[i]});
  checkpoint.tokenizer_pattern = kPattern;
  checkpoint.tokenizer_class = "Qwen2Tokenizer";
  checkpoint.end_token = "<|im_end|>";
  checkpoint.pad_token = "<|endoftext|>";
  return checkpoint;
}

// --- what checkpoints call themselves ---

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen2VLForConditionalGeneration"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen2_vl"};
// Current transformers' names to the hub's.
constexpr std::array kAliases = {NameAlias{"model.visual.", "visual."},
                                 NameAlias{"model.language_model.", "model."}};

}  // namespace

extern const Family kQwen2Vl;
const Family kQwen2Vl = {.name = "qwen2-vl",
                         .architectures = kArchitectures,
                         .model_types = kModelTypes,
                         .aliases = kAliases,
                         .sizes = kDummyNames,
                         .create = Qwen2Vl::create,
                         .dummy = dummy};

}  // namespace saccade
