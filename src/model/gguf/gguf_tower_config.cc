#include "model/gguf/gguf_tower_config.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace saccade {
namespace {

constexpr std::int64_t kMaxTowerLayers = 1024;
// Of all its other lengths, so that squares and small multiples of them are numbers too.
constexpr std::int64_t kMaxTowerLength = 1 << 20;

struct Tower {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t inner = 0;
  std::int64_t image = 0;
  std::int64_t patch = 0;
  double epsilon = 1e-6;
  std::string activation;
};

// `activation`: where neither clip.use_gelu nor clip.use_silu says one; `gelu`: what the first
// stands for.
Result<Tower> read_gguf_tower(const GgufModel& model, std::string activation,
                              std::string_view gelu = "gelu_pytorch_tanh") {
  const GgufMetadata& metadata = model.projector();
  Tower tower;
  TRY(tower.layers, metadata.get_int("clip.vision.block_count"));
  TRY(tower.width, metadata.get_int("clip.vision.embedding_length"));
  TRY(tower.heads, metadata.get_int("clip.vision.attention.head_count"));
  TRY(tower.inner, metadata.get_int("clip.vision.feed_forward_length"));
  TRY(tower.image, metadata.get_int_or("clip.vision.image_size", 0));
  TRY(tower.patch, metadata.get_int("clip.vision.patch_size"));
  TRY(tower.epsilon,
      metadata.get_double_or("clip.vision.attention.layer_norm_epsilon", tower.epsilon));
  TRY(const bool silu, metadata.get_bool_or("clip.use_silu", false));
  TRY(const bool has_gelu, metadata.get_bool_or("clip.use_gelu", false));
  tower.activation = silu ? "silu" : has_gelu ? std::string(gelu) : std::move(activation);
  struct Length {
    const char* key;
    std::int64_t value;
    std::int64_t least;
    std::int64_t most;
  };
  for (const Length& length : {Length{"block_count", tower.layers, 1, kMaxTowerLayers},
                               Length{"embedding_length", tower.width, 1, kMaxTowerLength},
                               Length{"attention.head_count", tower.heads, 1, kMaxTowerLength},
                               Length{"feed_forward_length", tower.inner, 0, kMaxTowerLength},
                               Length{"image_size", tower.image, 0, kMaxTowerLength},
                               Length{"patch_size", tower.patch, 1, kMaxTowerLength}}) {
    if (length.value < length.least || length.value > length.most)
      return fail(ErrorCode::kInvalid, "clip.vision.{} is {}, {} to {} is possible", length.key,
                  length.value, length.least, length.most);
  }
  // Some files say the width before the MLP.
  const GgufTensor* const up = model.find("v.blk.0.ffn_up.weight").tensor;
  if (up != nullptr && up->shape.size() == 2) tower.inner = std::max(up->shape[0], up->shape[1]);
  if (up != nullptr && up->shape.size() == 2 && up->shape[1] == tower.width)
    tower.inner = up->shape[0];
  return tower;
}

Result<void> add_normalize(const GgufModel& model, json::object& preprocessor) {
  for (const auto& [from, to] : {std::pair{"clip.vision.image_mean", "image_mean"},
                                 {"clip.vision.image_std", "image_std"}}) {
    TRY(const std::vector<double> numbers, model.projector().get_doubles(from));
    if (numbers.empty()) continue;
    json::array list;
    for (const double number : numbers) list.emplace_back(number);
    preprocessor[to] = std::move(list);
  }
  return {};
}

// Of the text's vocabulary, by how it is written; nothing is added where it has none.
Result<void> add_token(const GgufModel& model, std::string_view token, std::string_view member,
                       json::object& config) {
  TRY(const auto tokens, model.metadata().get_strings("tokenizer.ggml.tokens"));
  const auto found = std::ranges::find(tokens, token);
  if (found != tokens.end()) config[member] = found - tokens.begin();
  return {};
}

Result<std::int64_t> text_width(const GgufModel& model) {
  return model.metadata().get_int(model.key("embedding_length"));
}

struct PixelRange {
  std::int64_t least;
  std::int64_t most;
};

Result<void> add_patch_images(const GgufModel& model, const Tower& tower, PixelRange bounds,
                              json::object& config, json::object& preprocessor) {
  const GgufMetadata& metadata = model.projector();
  TRY(const std::int64_t merge, metadata.get_int_or("clip.vision.spatial_merge_size", 2));
  TRY(bounds.least, metadata.get_int_or("clip.vision.image_min_pixels", bounds.least));
  TRY(bounds.most, metadata.get_int_or("clip.vision.image_max_pixels", bounds.most));
  preprocessor = {{"image_processor_type", "Qwen2VLImageProcessor"},
                  {"min_pixels", bounds.least},
                  {"max_pixels", bounds.most},
                  {"patch_size", tower.patch},
                  {"temporal_patch_size", 2},
                  {"merge_size", merge}};
  TRY_DO(add_normalize(model, preprocessor));
  TRY_DO(add_token(model, "<|image_pad|>", "image_token_id", config));
  TRY_DO(add_token(model, "<|video_pad|>", "video_token_id", config));
  TRY_DO(add_token(model, "<|vision_start|>", "vision_start_token_id", config));
  TRY_DO(add_token(model, "<|vision_end|>", "vision_end_token_id", config));
  return {};
}

// What the three towers of Qwen have in common.
Result<json::object> patch_tower(const GgufModel& model, const Tower& tower) {
  TRY(const std::int64_t merge, model.projector().get_int_or("clip.vision.spatial_merge_size", 2));
  return json::object{{"depth", tower.layers},     {"num_heads", tower.heads},
                      {"patch_size", tower.patch}, {"spatial_merge_size", merge},
                      {"temporal_patch_size", 2},  {"hidden_act", tower.activation}};
}

// SigLIP's, as Gemma 3, SmolVLM and LLaVA-OneVision have it.
json::object siglip(const Tower& tower) {
  return {{"hidden_size", tower.width},        {"intermediate_size", tower.inner},
          {"num_hidden_layers", tower.layers}, {"num_attention_heads", tower.heads},
          {"image_size", tower.image},         {"patch_size", tower.patch},
          {"layer_norm_eps", tower.epsilon},   {"hidden_act", tower.activation}};
}

}  // namespace

Result<void> add_qwen2_tower(const GgufModel& model, json::object& config,
                             json::object& preprocessor) {
  TRY(const Tower tower, read_gguf_tower(model, "quick_gelu"));
  TRY(json::object vision, patch_tower(model, tower));
  if (tower.inner % tower.width != 0)
    return fail(ErrorCode::kUnsupported, "the tower's MLP is {} wide, no multiple of {}",
                tower.inner, tower.width);
  vision["embed_dim"] = tower.width;
  vision["mlp_ratio"] = tower.inner / tower.width;
  TRY(vision["hidden_size"], text_width(model));
  config["vision_config"] = std::move(vision);
  return add_patch_images(model, tower, {56 * 56, 28 * 28 * 16384}, config, preprocessor);
}

Result<void> add_qwen25_tower(const GgufModel& model, json::object& config,
                              json::object& preprocessor) {
  const GgufMetadata& metadata = model.projector();
  TRY(const Tower tower, read_gguf_tower(model, "silu"));
  TRY(json::object vision, patch_tower(model, tower));
  vision["hidden_size"] = tower.width;
  vision["intermediate_size"] = tower.inner;
  TRY(vision["out_hidden_size"], text_width(model));
  TRY(vision["window_size"], metadata.get_int_or("clip.vision.window_size", 112));
  TRY(const std::int64_t every, metadata.get_int_or("clip.vision.n_wa_pattern", 8));
  if (every < 1)
    return fail(ErrorCode::kInvalid, "clip.vision.n_wa_pattern is {}, 1 is the least", every);
  json::array whole;
  for (std::int64_t i = every - 1; i < tower.layers; i += every) whole.emplace_back(i);
  vision["fullatt_block_indexes"] = std::move(whole);
  vision["tokens_per_second"] = 2;
  config["vision_config"] = std::move(vision);
  return add_patch_images(model, tower, {56 * 56, 28 * 28 * 16384}, config, preprocessor);
}

Result<void> add_qwen3_tower(const GgufModel& model, json::object& config,
                             json::object& preprocessor) {
  const GgufMetadata& metadata = model.projector();
  TRY(const Tower tower, read_gguf_tower(model, "gelu_pytorch_tanh"));
  TRY(json::object vision, patch_tower(model, tower));
  vision["hidden_size"] = tower.width;
  vision["intermediate_size"] = tower.inner;
  TRY(vision["out_hidden_size"], text_width(model));
  const GgufTensor* const positions = model.find("v.position_embd.weight").tensor;
  if (positions == nullptr)
    return fail(ErrorCode::kInvalid, "tensor v.position_embd.weight is missing");
  vision["num_position_embeddings"] = positions->shape.front();
  TRY(const std::vector<std::int64_t> deep, metadata.get_ints("clip.vision.is_deepstack_layers"));
  json::array layers;
  for (std::size_t i = 0; i < deep.size(); ++i)
    if (deep[i] != 0) layers.emplace_back(static_cast<std::int64_t>(i));
  vision["deepstack_visual_indexes"] = std::move(layers);
  config["vision_config"] = std::move(vision);
  return add_patch_images(model, tower, {256 * 256, 4096 * 4096}, config, preprocessor);
}

Result<void> add_gemma_tower(const GgufModel& model, json::object& config,
                             json::object& preprocessor) {
  TRY(const Tower tower, read_gguf_tower(model, "gelu_pytorch_tanh"));
  TRY(const std::int64_t pooled,
      model.projector().get_int_or("clip.vision.projector.scale_factor", 4));
  if (pooled < 1)
    return fail(ErrorCode::kInvalid, "clip.vision.projector.scale_factor is {}", pooled);
  const std::int64_t side = tower.image / tower.patch / pooled;
  json::object vision = siglip(tower);
  vision["model_type"] = "siglip_vision_model";
  vision["vision_use_head"] = false;
  config["vision_config"] = std::move(vision);
  config["mm_tokens_per_image"] = side * side;
  TRY_DO(add_token(model, "<image_soft_token>", "image_token_index", config));
  TRY_DO(add_token(model, "<start_of_image>", "boi_token_index", config));
  TRY_DO(add_token(model, "<end_of_image>", "eoi_token_index", config));
  preprocessor = {{"image_processor_type", "Gemma3ImageProcessor"},
                  {"size", {{"height", tower.image}, {"width", tower.image}}},
                  {"resample", 2}};
  return add_normalize(model, preprocessor);
}

Result<void> add_smolvlm_tower(const GgufModel& model, json::object& config,
                               json::object& preprocessor) {
  const GgufMetadata& metadata = model.projector();
  TRY(const Tower tower, read_gguf_tower(model, "gelu_pytorch_tanh"));
  json::object vision = siglip(tower);
  vision["model_type"] = "smolvlm_vision";
  config["vision_config"] = std::move(vision);
  TRY(config["scale_factor"], metadata.get_int_or("clip.vision.projector.scale_factor", 4));
  TRY(const std::int64_t longest,
      metadata.get_int_or("clip.vision.preproc_image_size", 4 * tower.image));
  TRY_DO(add_token(model, "<image>", "image_token_id", config));
  preprocessor = {{"image_processor_type", "SmolVLMImageProcessor"},
                  {"do_image_splitting", true},
                  {"max_image_size", {{"longest_edge", tower.image}}},
                  {"size", {{"longest_edge", longest}}},
                  {"resample", 1}};
  return add_normalize(model, preprocessor);
}

// Pixtral, and Mistral Small 3.1 and later, whose patches are merged before they are projected.
Result<void> add_pixtral_tower(const GgufModel& model, json::object& config,
                               json::object& preprocessor) {
  TRY(const Tower tower, read_gguf_tower(model, "silu", "gelu"));
  const bool merges = model.find("mm.patch_merger.weight").tensor != nullptr;
  if (merges) {
    config["architectures"] = json::array{"Mistral3ForConditionalGeneration"};
    config["model_type"] = "mistral3";
    TRY(config["spatial_merge_size"],
        model.projector().get_int_or("clip.vision.spatial_merge_size", 2));
  }
  // Where nothing is said the class has a window of 4096, which no file with images has.
  config["text_config"].as_object()["sliding_window"] = nullptr;
  config["vision_feature_layer"] = -1;
  config["vision_feature_select_strategy"] = "full";
  config["projector_hidden_act"] = "gelu";
  config["multimodal_projector_bias"] = model.find("mm.1.bias").tensor != nullptr;
  config["vision_config"] = {{"model_type", "pixtral"},
                             {"hidden_size", tower.width},
                             {"intermediate_size", tower.inner},
                             {"num_hidden_layers", tower.layers},
                             {"num_attention_heads", tower.heads},
                             {"image_size", tower.image},
                             {"patch_size", tower.patch},
                             {"hidden_act", tower.activation},
                             {"rope_theta", 10000.0}};
  TRY_DO(add_token(model, "[IMG]", "image_token_index", config));
  preprocessor = {{"image_processor_type", "PixtralImageProcessor"},
                  {"size", {{"longest_edge", tower.image}}},
                  {"patch_size", tower.patch},
                  {"resample", 3}};
  return add_normalize(model, preprocessor);
}

// Of all that llama.cpp's converter for LLaVA writes with a projector "mlp" (1.5, 1.6, OneVision)
// the last has SigLIP's tower beside Qwen2's text. llama.cpp cuts images at the same pinpoints and
// leaves out the newlines; here they are laid out as the checkpoint's own processor does.
Result<void> add_onevision_tower(const GgufModel& model, json::object& config,
                                 json::object& preprocessor) {
  const GgufMetadata& metadata = model.projector();
  for (const char* const newline : {"model.image_newline", "v.image_newline"})
    if (model.find(newline).tensor != nullptr) config["use_image_newline_parameter"] = true;
  if (!config.contains("use_image_newline_parameter") ||
      model.find("v.class_embd").tensor != nullptr)
    return fail(ErrorCode::kUnsupported,
                "clip.projector_type is \"mlp\": of LLaVA OneVision is read, whose tower has "
                "model.image_newline and no v.class_embd");
  TRY(const std::string_view merge,
      metadata.get_string_or("clip.vision.mm_patch_merge_type", "spatial_unpad"));
  if (merge != "spatial_unpad")
    return fail(ErrorCode::kUnsupported,
                "clip.vision.mm_patch_merge_type is \"{}\"; spatial_unpad is read", merge);
  TRY(const Tower tower, read_gguf_tower(model, "gelu_pytorch_tanh"));
  json::object vision = siglip(tower);
  vision["model_type"] = "siglip_vision_model";
  vision["vision_use_head"] = false;
  config["vision_config"] = std::move(vision);
  TRY(const std::vector<std::int64_t> layers, metadata.get_ints("clip.vision.feature_layer"));
  config["vision_feature_layer"] = -1;
  if (!layers.empty()) config["vision_feature_layer"] = json::array(layers.begin(), layers.end());
  config["vision_feature_select_strategy"] = "full";
  config["projector_hidden_act"] = "gelu";
  config["multimodal_projector_bias"] = model.find("mm.0.bias").tensor != nullptr;
  TRY(config["vision_aspect_ratio"],
      metadata.get_string_or("clip.vision.image_aspect_ratio", "anyres_max_9"));
  TRY_DO(add_token(model, "<image>", "image_token_index", config));
  TRY_DO(add_token(model, "<video>", "video_token_index", config));
  preprocessor = {{"image_processor_type", "LlavaOnevisionImageProcessor"},
                  {"size", {{"height", tower.image}, {"width", tower.image}}},
                  {"image_mean", {0.5, 0.5, 0.5}},
                  {"image_std", {0.5, 0.5, 0.5}},
                  {"resample", 3}};
  TRY_DO(add_normalize(model, preprocessor));
  TRY(const std::vector<std::int64_t> sides, metadata.get_ints("clip.vision.image_grid_pinpoints"));
  if (sides.empty()) return {};
  if (sides.size() % 2 != 0)
    return fail(ErrorCode::kInvalid, "clip.vision.image_grid_pinpoints has {} sides, no pairs",
                sides.size());
  json::array pinpoints;
  for (std::size_t i = 0; i < sides.size(); i += 2)
    pinpoints.push_back(json::array{sides[i], sides[i + 1]});
  config["image_grid_pinpoints"] = pinpoints;
  preprocessor["image_grid_pinpoints"] = std::move(pinpoints);
  return {};
}

// The converter's image_size is the slices' (scale_resolution); of learnt positions there are a
// square. How many slices an image may have is not in the file: nine, as published.
Result<void> add_minicpmv_tower(const GgufModel& model, json::object& config,
                                json::object& preprocessor) {
  const GgufMetadata& metadata = model.projector();
  TRY(const Tower tower, read_gguf_tower(model, "gelu_pytorch_tanh"));
  TRY(const std::int64_t joined, metadata.get_int_or("clip.vision.projector.scale_factor", 4));
  if (joined != 4)
    return fail(ErrorCode::kUnsupported,
                "clip.vision.projector.scale_factor is {} (downsample_mode 4x); 4 is read", joined);
  const GgufTensor* const positions = model.find("v.position_embd.weight").tensor;
  const std::int64_t count = positions == nullptr ? 0 : positions->shape.front();
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(count)));
  if (count < 1 || side * side != count)
    return fail(ErrorCode::kInvalid,
                "tensor v.position_embd.weight has {} rows, a square is needed", count);
  json::object vision = siglip(tower);
  vision["model_type"] = "minicpmv4_6_vision";
  vision["image_size"] = side * tower.patch;
  config["vision_config"] = std::move(vision);
  TRY(const std::vector<std::int64_t> after, metadata.get_ints("clip.vision.wa_layer_indexes"));
  config["insert_layer_id"] = after.empty() ? 6 : after.front();
  config["downsample_mode"] = "16x";
  // Its text counts tokens along one axis, whatever the converter writes for all of Qwen3.5.
  config["text_config"].as_object().erase("rope_scaling");
  TRY_DO(add_token(model, "<|image_pad|>", "image_token_id", config));
  TRY_DO(add_token(model, "<|video_pad|>", "video_token_id", config));
  preprocessor = {{"image_processor_type", "MiniCPMV4_6ImageProcessor"},
                  {"scale_resolution", tower.image},
                  {"patch_size", tower.patch},
                  {"max_slice_nums", 9},
                  {"downsample_mode", "16x"},
                  {"use_image_id", true},
                  {"resample", 3}};
  return add_normalize(model, preprocessor);
}

Result<void> add_intern_tower(const GgufModel& model, json::object& config,
                              json::object& preprocessor) {
  const GgufMetadata& metadata = model.projector();
  TRY(const Tower tower, read_gguf_tower(model, "gelu"));
  const bool norms = model.find("v.blk.0.attn_q_norm.weight").tensor != nullptr;
  const bool rms = model.find("v.blk.0.ln1.bias").tensor == nullptr;
  config["vision_config"] = {
      {"model_type", "internvl_vision"},
      {"hidden_size", tower.width},
      {"intermediate_size", tower.inner},
      {"num_hidden_layers", tower.layers},
      {"num_attention_heads", tower.heads},
      {"image_size", json::array{tower.image, tower.image}},
      {"patch_size", json::array{tower.patch, tower.patch}},
      {"hidden_act", "gelu"},
      {"layer_norm_eps", tower.epsilon},
      {"norm_type", rms ? "rms_norm" : "layer_norm"},
      {"attention_bias", model.find("v.blk.0.attn_q.bias").tensor != nullptr},
      {"use_qk_norm", norms}};
  config["downsample_ratio"] = 0.5;
  config["vision_feature_layer"] = -1;
  config["projector_hidden_act"] = "gelu";
  TRY_DO(add_token(model, "<IMG_CONTEXT>", "image_token_id", config));
  TRY(const std::int64_t least, metadata.get_int_or("clip.vision.preproc_min_tiles", 1));
  TRY(const std::int64_t most, metadata.get_int_or("clip.vision.preproc_max_tiles", 12));
  preprocessor = {{"image_processor_type", "GotOcr2ImageProcessorFast"},
                  {"size", {{"height", tower.image}, {"width", tower.image}}},
                  {"min_patches", least},
                  {"max_patches", most},
                  {"resample", 3}};
  return add_normalize(model, preprocessor);
}

}  // namespace saccade
