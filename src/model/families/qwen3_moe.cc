// Qwen3 text models that are mixtures of experts (30B-A3B, 235B-A22B). Reference: transformers'
// models/qwen3_moe; report arXiv:2505.09388.
//
// Qwen3 but for the MLP: a router chooses 8 of 128 small ones for each token. Each expert's
// matrices are stored by themselves. Layers that mlp_only_layers or decoder_sparse_step leave out
// have one MLP; no published checkpoint has such.
#include <array>
#include <utility>

#include "model/families/qwen3_decoder.h"
#include "model/family.h"
#include "model/text_model.h"

namespace saccade {
namespace {

Result<UnloadedModel> create(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_qwen3_moe(checkpoint.config));
  return make_text_model("qwen3-moe", checkpoint, std::move(decoder), {});
}

constexpr std::array<std::string_view, 1> kArchitectures = {"Qwen3MoeForCausalLM"};
constexpr std::array<std::string_view, 1> kModelTypes = {"qwen3_moe"};

}  // namespace

extern const Family kQwen3Moe;
const Family kQwen3Moe = {.name = "qwen3-moe",
                          .architectures = kArchitectures,
                          .model_types = kModelTypes,
                          .aliases = {},
                          .create = create};

}  // namespace saccade
