// Mistral text models: 7B, Nemo 12B, Ministral 8B, Small 3 24B. Reference: transformers'
// models/mistral; report arXiv:2310.06825.
//
// Odd things: a window, where there is one, is of every layer, and a file that does not say
// sliding_window has one; heads are together as wide as the text or not (Nemo, Small: 32 of 128 in
// 5,120).
#include <array>
#include <utility>

#include "model/families/mistral_decoder.h"
#include "model/family.h"
#include "model/text_model.h"

namespace saccade {
namespace {

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_mistral(checkpoint.config));
  return make_text_model("mistral", checkpoint, std::move(decoder), {});
}

constexpr std::array<std::string_view, 1> kArchitectures = {"MistralForCausalLM"};
constexpr std::array<std::string_view, 1> kModelTypes = {"mistral"};

}  // namespace

extern const Family kMistral;
const Family kMistral = {.name = "mistral",
                         .architectures = kArchitectures,
                         .model_types = kModelTypes,
                         .aliases = {},
                         .create = create};

}  // namespace saccade
