// Qwen2 and Qwen2.5 text models (0.5B to 72B). Reference: transformers' models/qwen2; report
// arXiv:2407.10671.
//
// Odd things: q, k and v have biases and no other matrix has; small sizes tie the head to the
// embedding; layers from max_window_layers on may see a window, though no published checkpoint
// turns that on.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "model/checkpoint/decoder_config.h"
#include "model/family.h"
#include "model/text_model.h"

namespace saccade {
namespace {

constexpr DecoderDefaults kDefaults = {.norm_epsilon = 1e-6,
                                       .rope_theta = 10000,
                                       .max_position = 32768,
                                       .sliding_window = 4096,
                                       .max_window_layers = 28,
                                       .tied_head = false};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kDefaults));
  decoder.settings.qkv_bias = true;
  return make_text_model("qwen2", checkpoint, std::move(decoder), {});
}

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen2ForCausalLM"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen2"};

}  // namespace

extern const Family kQwen2;
const Family kQwen2 = {.name = "qwen2",
                       .architectures = kArchitectures,
                       .model_types = kModelTypes,
                       .aliases = {},
                       .create = create};

}  // namespace saccade
