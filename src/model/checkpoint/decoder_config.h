// config.json to DecoderSettings: the fields that most decoders share, by their published names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/blocks/text_decoder.h"
#include "model/checkpoint/checkpoint.h"

namespace saccade {

inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 31;  // max_position_embeddings

// Which tie_word_embeddings counts where files have two: that beside text_config, that inside, or
// either if it is true (files of before transformers 5 had it inside).
enum class TieField { kOuter, kInner, kEither };

// What a family's configuration class says where a file is silent.
struct DecoderDefaults {
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  std::int64_t max_position = 2048;
  std::int64_t sliding_window = 4096;
  std::int64_t max_window_layers = 0;  // with use_sliding_window: the first layer that has one
  bool tied_head = false;
  TieField tie_field = TieField::kOuter;
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  std::string_view activation = "silu";
  bool alternate_windows = false;  // layers 0, 2, 4, ... see sliding_window (Gemma-2)
  // Layers that keep a state, linear_attention in layer_types: every so manieth attends where
  // neither that nor full_attention_interval is there. 0: the family has none.
  std::int64_t full_interval = 0;
  // M-RoPE: neighbouring pairs take turns with the axes, whatever mrope_interleaved says
  // (Qwen3-VL).
  bool interleaved_sections = false;
  std::array<std::int64_t, 3> sections = {};  // mrope_section; all 0: such a file has one axis
  // partial_rotary_factor, the share of a head that turns; 0: the field is not read and all turns.
  double rotary_share = 0;
};

struct DecoderConfig {
  DecoderSettings settings;
  std::int64_t max_position = 0;
  std::int64_t usual_length = 0;  // up to here positions are not scaled; 0: max_position
  int position_axes = 1;          // 3 with mrope_section
};

// Reads hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
// num_key_value_heads, head_dim, vocab_size, rms_norm_eps, hidden_activation or hidden_act,
// max_position_embeddings, layer_types or use_sliding_window / sliding_window / max_window_layers,
// rope_parameters or rope_scaling / rope_theta, and tie_word_embeddings, from text_config or, where
// files are flat, from the top. Errors name the field that is wrong or that cannot be honoured.
Result<DecoderConfig> parse_decoder(const json::object& config, const DecoderDefaults& defaults);

// tie_word_embeddings, from where defaults.tie_field says.
Result<bool> has_tied_head(const json::object& config, const DecoderDefaults& defaults);

// silu, gelu, gelu_pytorch_tanh, gelu_new, quick_gelu, relu.
Result<Activation> parse_activation(std::string_view name);

// Rope of `text`, for heads of head_dim, of which partial_rotary_factor turns where the family has
// that. kUnsupported names a type that is not done.
struct RopeConfig {
  RopeSettings settings;
  std::int64_t scaled_length = 0;  // that scaling makes room for; 0: max_position_embeddings
  int position_axes = 1;
};
Result<RopeConfig> parse_rope(const json::object& text, std::int64_t head_dim,
                              const DecoderDefaults& defaults);

// attention_bias (of queries, keys, values and the matrix after attention) and mlp_bias, as Llama
// and its relatives have them.
Result<void> read_biases(const json::object& text, DecoderSettings& settings);

// num_experts (or num_local_experts), num_experts_per_tok, moe_intermediate_size, norm_topk_prob,
// decoder_sparse_step and mlp_only_layers, as Qwen's mixtures have them; `defaults` where the file
// is silent. With 0 experts there are none.
Result<void> read_experts(const json::object& text, const ExpertSettings& defaults,
                          DecoderSettings& settings);

// The shape that the engine sees, of a model without images: the decoder's, and the end tokens that
// the checkpoint's generation_config.json names.
Result<ModelShape> describe_model(std::string_view family, const Checkpoint& checkpoint,
                                  const DecoderConfig& decoder);

}  // namespace saccade
