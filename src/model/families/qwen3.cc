// Qwen3 text models, dense (0.6B to 32B). Reference: transformers' models/qwen3; report
// arXiv:2505.09388.
//
// Odd things: each head's query and key are normed before they turn; head_dim is 128 whatever the
// width (0.6B: 16 heads of 128 over 1024); no matrix has a bias unless attention_bias says so;
// small sizes tie the head to the embedding.
#include <array>
#include <utility>

#include "model/families/qwen3_decoder.h"
#include "model/family.h"
#include "model/text_model.h"

namespace saccade {
namespace {

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_qwen3(checkpoint.config));
  return make_text_model("qwen3", checkpoint, std::move(decoder), {});
}

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen3ForCausalLM"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen3"};

}  // namespace

extern const Family kQwen3;
const Family kQwen3 = {.name = "qwen3",
                       .architectures = kArchitectures,
                       .model_types = kModelTypes,
                       .aliases = {},
                       .create = create};

}  // namespace saccade
