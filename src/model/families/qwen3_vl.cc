// Qwen3-VL, dense (2B, 4B, 8B, 32B). Reference: transformers' models/qwen3_vl; report
// arXiv:2511.21631.
//
// Four odd things:
//  - DeepStack: after three of the vision layers a merger of their own makes rows that are added to
//    the image's tokens after the first three text layers. An embedding row is four times as wide
//    as the text.
//  - Patches have learnt positions besides their angles: a square of 48 x 48, stretched over each
//    image.
//  - The axes of a position take turns along a head's frequencies instead of having a section each.
//  - A video is its groups of frames one by one, as images, each after its time written as text.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "model/families/qwen_dummy.h"
#include "model/patch_model.h"

namespace saccade {
namespace {

// --- configuration ---

constexpr DecoderDefaults kTextDefaults = {.norm_epsilon = 1e-6,
                                           .rope_theta = 500000,
                                           .max_position = 128000,
                                           .tied_head = false,
                                           .head_dim = 128,
                                           .interleaved_sections = true};

const PatchTowerNames kTowerNames = {.tower = "model.visual.",
                                     .mlp_in = "mlp.linear_fc1",
                                     .mlp_out = "mlp.linear_fc2",
                                     .merger_norm = "norm",
                                     .merger_in = "linear_fc1",
                                     .merger_out = "linear_fc2"};

DecoderNames text_names() {
  DecoderNames names;
  names.embedding = "model.language_model.embed_tokens";
  names.layer = "model.language_model.layers.{}.";
  names.norm = "model.language_model.norm";
  return names;
}

Result<PatchTowerSettings> parse_vision(const json::object& config) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  PatchTowerSettings tower;
  tower.norm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};
  tower.depth = 27;
  tower.embed = 1152;
  tower.inner = 4304;
  tower.patch = 16;
  tower.patch_bias = true;
  tower.out = 3584;
  tower.names = kTowerNames;
  std::int64_t positions = 48 * 48;
  const std::array fields = {
      ExtentField{"depth", &tower.depth, 1024},
      ExtentField{"hidden_size", &tower.embed, 1 << 16},
      ExtentField{"intermediate_size", &tower.inner, 1 << 18},
      ExtentField{"num_heads", &tower.heads, 1024},
      ExtentField{"in_channels", &tower.channels, 3},
      ExtentField{"patch_size", &tower.patch, 256},
      ExtentField{"spatial_merge_size", &tower.merge, 16},
      ExtentField{"temporal_patch_size", &tower.frames, 16},
      ExtentField{"out_hidden_size", &tower.out, 1 << 16},
      ExtentField{"num_position_embeddings", &positions, 1 << 20},
  };
  TRY_DO(read_extents(*vision, "vision_config", fields));
  while (tower.positions * tower.positions < positions) ++tower.positions;
  if (tower.positions * tower.positions != positions)
    return fail(ErrorCode::kUnsupported,
                "vision_config.num_position_embeddings {} is not the square of a side", positions);
  TRY(tower.deepstack, vision_layers(*vision, "deepstack_visual_indexes", {8, 16, 24}));
  TRY(const std::string activation,
      json::get_string_or(*vision, "hidden_act", "gelu_pytorch_tanh"));
  TRY(tower.activation, parse_activation(activation));
  TRY(tower.rope_theta, vision_rope_theta(*vision));
  return tower;
}

Result<std::unique_ptr<LoadableModel>> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kTextDefaults));
  TRY_DO(read_biases(text_section(checkpoint.config), decoder.settings));
  decoder.settings.mlp_bias = false;  // there is no such field
  TRY(PatchTowerSettings tower, parse_vision(checkpoint.config));
  DecoderSettings& text = decoder.settings;
  if (tower.out != text.hidden)
    return fail(ErrorCode::kInvalid, "vision_config.out_hidden_size is {}, the text is {} wide",
                tower.out, text.hidden);
  if (tower.deepstack.size() > text.layers.size())
    return fail(ErrorCode::kInvalid,
                "vision_config.deepstack_visual_indexes names {} layers, the text has {}",
                tower.deepstack.size(), text.layers.size());
  text.qk_norm = true;
  text.deepstack = static_cast<std::int64_t>(tower.deepstack.size());
  return make_patch_model("qwen3-vl", checkpoint, std::move(decoder), std::move(tower),
                          VideoTime{.written = true}, text_names());
}

// --- checkpoints of random weights ---

struct DummySize {
  std::string_view name;
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim;
  bool tied;
  std::int64_t vocab, pieces;
  std::array<int, 3> sections;
  std::int64_t depth, embed, inner, vision_heads, positions;
  std::string_view deepstack;
};
constexpr std::array<int, 3> kSections = {24, 20, 20};
constexpr std::array kDummySizes = {
    DummySize{
        "tiny", 128, 256, 4, 4, 2, 40, true, 1280, 1200, {8, 6, 6}, 4, 128, 252, 4, 64, "0, 2"},
    DummySize{"2b", 2048, 6144, 28, 16, 8, 128, true, 151936, 151643, kSections, 24, 1024, 4096, 16,
              2304, "5, 11, 17"},
    DummySize{"4b", 2560, 9728, 36, 32, 8, 128, true, 151936, 151643, kSections, 24, 1024, 4096, 16,
              2304, "5, 11, 17"},
    DummySize{"8b", 4096, 12288, 36, 32, 8, 128, false, 151936, 151643, kSections, 27, 1152, 4304,
              16, 2304, "8, 16, 24"},
    DummySize{"32b", 5120, 25600, 64, 64, 8, 128, false, 151936, 151643, kSections, 27, 1152, 4304,
              16, 2304, "8, 16, 24"},
};
constexpr std::array<std::string_view, 5> kDummyNames = {"tiny", "2b", "4b", "8b", "32b"};

// What the published template gives for messages without tools: no default system message.
constexpr std::string_view kChatTemplate =
    R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type in ['image', 'image_url'] or 'image' in part -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- elif part.type == 'video' or 'video' in part -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
{%- elif 'text' in part -%}{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
)";

constexpr std::string_view kPreprocessorConfig =
    R"({"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, )"
    R"("merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
    R"("processor_class": "Qwen3VLProcessor", "image_processor_type": "Qwen2VLImageProcessorFast"})";

constexpr std::string_view kVideoPreprocessorConfig =
    R"({"size": {"longest_edge": 25165824, "shortest_edge": 4096}, "patch_size": 16, "temporal_patch_size": 2, )"
    R"("merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], )"
    R"("processor_class": "Qwen3VLProcessor", "video_processor_type": "Qwen3VLVideoProcessor"})";

std::string dummy_config(const DummySize& s) {
  using fmt::arg;
  return fmt::format(
      R"({{"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl",
 "image_token_id": {image}, "video_token_id": {video}, "vision_start_token_id": {start}, "vision_end_token_id": {end},
 "tie_word_embeddings": {tied},
 "text_config": {{"attention_bias": false, "bos_token_id": {bos}, "dtype": "bfloat16", "eos_token_id": {eos},
  "head_dim": {head_dim}, "hidden_act": "silu", "hidden_size": {hidden}, "intermediate_size": {intermediate},
  "max_position_embeddings": 262144, "model_type": "qwen3_vl_text", "num_attention_heads": {heads},
  "num_hidden_layers": {layers}, "num_key_value_heads": {kv_heads}, "rms_norm_eps": 1e-06,
  "rope_scaling": {{"mrope_interleaved": true, "mrope_section": [{t}, {h}, {w}], "rope_type": "default"}},
  "rope_theta": 5000000, "tie_word_embeddings": {tied}, "vocab_size": {vocab}}},
 "vision_config": {{"deepstack_visual_indexes": [{deepstack}], "depth": {depth}, "hidden_act": "gelu_pytorch_tanh",
  "hidden_size": {embed}, "in_channels": 3, "intermediate_size": {inner}, "model_type": "qwen3_vl", "num_heads": {vision_heads},
  "num_position_embeddings": {positions}, "out_hidden_size": {hidden}, "patch_size": 16, "spatial_merge_size": 2,
  "temporal_patch_size": 2}}}}
)",
      arg("image", s.pieces + 12), arg("video", s.pieces + 13), arg("start", s.pieces + 9),
      arg("end", s.pieces + 10), arg("tied", s.tied), arg("bos", s.pieces),
      arg("eos", s.pieces + 2), arg("head_dim", s.head_dim), arg("hidden", s.hidden),
      arg("intermediate", s.intermediate), arg("heads", s.heads), arg("layers", s.layers),
      arg("kv_heads", s.kv_heads), arg("t", s.sections[0]), arg("h", s.sections[1]),
      arg("w", s.sections[2]), arg("vocab", s.vocab), arg("deepstack", s.deepstack),
      arg("depth", s.depth), arg("embed", s.embed), arg("inner", s.inner),
      arg("vision_heads", s.vision_heads), arg("positions", s.positions));
}

Result<DummyCheckpoint> dummy(std::string_view size) {
  const auto found = std::ranges::find(kDummySizes, size, &DummySize::name);
  CHECK(found != kDummySizes.end(), "size {}", size);
  DummyCheckpoint checkpoint;
  checkpoint.files = {
      {"config.json", dummy_config(*found)},
      {"generation_config.json",
       fmt::format(
           R"({{"bos_token_id": {0}, "pad_token_id": {0}, "do_sample": true, "eos_token_id": [{1}, {0}], "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.0, "temperature": 0.7}})",
           found->pieces, found->pieces + 2)},
      {"preprocessor_config.json", std::string(kPreprocessorConfig)},
      {"video_preprocessor_config.json", std::string(kVideoPreprocessorConfig)}};
  describe_qwen_vision_tokenizer(found->pieces, checkpoint);
  checkpoint.chat_template = kChatTemplate;
  return checkpoint;
}

// --- what checkpoints call themselves ---

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen3VLForConditionalGeneration"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen3_vl"};

}  // namespace

extern const Family kQwen3Vl;
const Family kQwen3Vl = {.name = "qwen3-vl",
                         .architectures = kArchitectures,
                         .model_types = kModelTypes,
                         .aliases = {},
                         .sizes = kDummyNames,
                         .create = create,
                         .dummy = dummy};

}  // namespace saccade
