// Qwen3.5 text models (Qwen3_5ForCausalLM): what Qwen3.5 is without its tower. Reference:
// transformers' models/qwen3_5; gated delta nets: arXiv:2412.06464.
//
// Odd things:
//  - Three layers of four keep a state of one size instead of keys and values: a convolution over
//    four tokens, then a matrix for each value head.
//  - The others put a gate on what each head gives, and turn a quarter of a head's dimensions.
//  - Norms are of 1 + w, but for the delta nets' own.
#include <array>
#include <utility>

#include "model/families/qwen3_5_decoder.h"
#include "model/family.h"
#include "model/text_model.h"

namespace saccade {
namespace {

// All three axes of a text's positions are its order.
Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_qwen3_5(checkpoint.config));
  decoder.settings.rope.axis.clear();
  decoder.position_axes = 1;
  return make_text_model("qwen3.5-text", checkpoint, std::move(decoder), qwen3_5_names("model."));
}

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen3_5ForCausalLM"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen3_5_text"};

}  // namespace

extern const Family kQwen35Text;
const Family kQwen35Text = {.name = "qwen3.5-text",
                            .architectures = kArchitectures,
                            .model_types = kModelTypes,
                            .aliases = {},
                            .create = create};

}  // namespace saccade
