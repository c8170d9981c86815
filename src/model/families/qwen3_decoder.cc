#include "model/families/qwen3_decoder.h"

#include "model/checkpoint.h"

namespace saccade {
namespace {

constexpr DecoderDefaults kQwen3 = {.norm_epsilon = 1e-6,
                                    .rope_theta = 10000,
                                    .max_position = 32768,
                                    .sliding_window = 4096,
                                    .max_window_layers = 28,
                                    .tied_head = false,
                                    .head_dim = 128};

}  // namespace

Result<DecoderConfig> parse_qwen3(const json::object& config) {
  TRY(DecoderConfig decoder, parse_decoder(config, kQwen3));
  TRY_DO(read_biases(text_section(config), decoder.settings));
  decoder.settings.mlp_bias = false;  // there is no such field
  decoder.settings.qk_norm = true;
  return decoder;
}

}  // namespace saccade
