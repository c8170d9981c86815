// Llama 3, 3.1 and 3.2 text models (1B to 70B). Reference: transformers' models/llama; report
// arXiv:2407.21783.
//
// Odd things: from 3.1 on, low rope frequencies are divided by a factor and those between two
// wavelengths blended ("llama3" in rope_scaling); three tokens end an answer; 1B and 3B tie the
// head to the embedding.
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
                                       .max_position = 2048,
                                       .sliding_window = 0,
                                       .max_window_layers = 0,
                                       .tied_head = false};

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kDefaults));
  TRY_DO(read_biases(checkpoint.config, decoder.settings));
  return make_text_model("llama-3", checkpoint, std::move(decoder), {});
}

constexpr std::array<std::string_view, 1> kArchitectures = {"LlamaForCausalLM"};
constexpr std::array<std::string_view, 1> kModelTypes = {"llama"};

}  // namespace

extern const Family kLlama3;
const Family kLlama3 = {.name = "llama-3",
                        .architectures = kArchitectures,
                        .model_types = kModelTypes,
                        .aliases = {},
                        .create = create};

}  // namespace saccade
