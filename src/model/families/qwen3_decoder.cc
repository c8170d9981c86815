#include "model/families/qwen3_decoder.h"

#include "model/checkpoint/checkpoint.h"

namespace saccade {
namespace {

constexpr DecoderDefaults kQwen3Defaults = {.norm_epsilon = 1e-6,
                                            .rope_theta = 10000,
                                            .max_position = 32768,
                                            .sliding_window = 4096,
                                            .max_window_layers = 28,
                                            .tied_head = false,
                                            .head_dim = 128};

// Heads where the file does not say: hidden_size / num_attention_heads.
constexpr DecoderDefaults kQwen3MoeDefaults = {
    .norm_epsilon = 1e-6, .rope_theta = 10000, .max_position = 32768, .tied_head = false};
const ExpertSettings kExperts = {
    .count = 128, .per_token = 8, .intermediate = 768, .normalise = false, .layers = {}};

}  // namespace

Result<DecoderConfig> parse_qwen3(const json::object& config) {
  TRY(DecoderConfig decoder, parse_decoder(config, kQwen3Defaults));
  TRY_DO(read_biases(text_section(config), decoder.settings));
  decoder.settings.mlp_bias = false;  // there is no such field
  decoder.settings.qk_norm = true;
  return decoder;
}

Result<DecoderConfig> parse_qwen3_moe(const json::object& config) {
  const json::object& text = text_section(config);
  TRY(const bool slides, json::get_bool_or(text, "use_sliding_window", false));
  if (slides) return fail(ErrorCode::kUnsupported, "use_sliding_window true is not supported");
  TRY(DecoderConfig decoder, parse_decoder(config, kQwen3MoeDefaults));
  TRY_DO(read_biases(text, decoder.settings));
  decoder.settings.mlp_bias = false;  // there is no such field
  decoder.settings.qk_norm = true;
  TRY_DO(read_experts(text, kExperts, decoder.settings));
  return decoder;
}

}  // namespace saccade
