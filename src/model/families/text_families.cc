// Text models whose decoder DecoderSettings says: a configuration and names.
#include <utility>

#include "model/checkpoint/decoder_config.h"
#include "model/families/mistral_decoder.h"
#include "model/families/qwen3_5_decoder.h"
#include "model/families/qwen3_decoder.h"
#include "model/family.h"
#include "model/text_model.h"

namespace saccade {
namespace text_families {
namespace {

// Llama 3, 3.1 and 3.2 text models (1B to 70B). Reference: transformers' models/llama; report
// arXiv:2407.21783.
//
// Odd things: from 3.1 on, low rope frequencies are divided by a factor and those between two
// wavelengths blended ("llama3" in rope_scaling); three tokens end an answer; 1B and 3B tie the
// head to the embedding.
constexpr DecoderDefaults kLlamaDefaults = {.norm_epsilon = 1e-6,
                                            .rope_theta = 10000,
                                            .max_position = 2048,
                                            .sliding_window = 0,
                                            .max_window_layers = 0,
                                            .tied_head = false};

Result<UnloadedModel> create_llama3(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kLlamaDefaults));
  TRY_DO(read_biases(checkpoint.config, decoder.settings));
  return make_text_model("llama-3", checkpoint, std::move(decoder), {});
}

// Mistral text models: 7B, Nemo 12B, Ministral 8B, Small 3 24B. Reference: transformers'
// models/mistral; report arXiv:2310.06825.
//
// Odd things: a window, where there is one, is of every layer, and a file that does not say
// sliding_window has one; heads are together as wide as the text or not (Nemo, Small: 32 of 128 in
// 5,120).
Result<UnloadedModel> create_mistral(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_mistral(checkpoint.config));
  return make_text_model("mistral", checkpoint, std::move(decoder), {});
}

// Qwen2 and Qwen2.5 text models (0.5B to 72B). Reference: transformers' models/qwen2; report
// arXiv:2407.10671.
//
// Odd things: q, k and v have biases and no other matrix has; small sizes tie the head to the
// embedding; layers from max_window_layers on may see a window, though no published checkpoint
// turns that on.
constexpr DecoderDefaults kQwen2Defaults = {.norm_epsilon = 1e-6,
                                            .rope_theta = 10000,
                                            .max_position = 32768,
                                            .sliding_window = 4096,
                                            .max_window_layers = 28,
                                            .tied_head = false};

Result<UnloadedModel> create_qwen2(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_decoder(checkpoint.config, kQwen2Defaults));
  decoder.settings.qkv_bias = true;
  return make_text_model("qwen2", checkpoint, std::move(decoder), {});
}

// Qwen3 text models, dense (0.6B to 32B). Reference: transformers' models/qwen3; report
// arXiv:2505.09388.
//
// Odd things: each head's query and key are normed before they turn; head_dim is 128 whatever the
// width (0.6B: 16 heads of 128 over 1024); no matrix has a bias unless attention_bias says so;
// small sizes tie the head to the embedding.
Result<UnloadedModel> create_qwen3(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_qwen3(checkpoint.config));
  return make_text_model("qwen3", checkpoint, std::move(decoder), {});
}

// Qwen3 text models that are mixtures of experts (30B-A3B, 235B-A22B). Reference: transformers'
// models/qwen3_moe; report arXiv:2505.09388.
//
// Qwen3 but for the MLP: a router chooses 8 of 128 small ones for each token. Each expert's
// matrices are stored by themselves. Layers that mlp_only_layers or decoder_sparse_step leave out
// have one MLP; no published checkpoint has such.
Result<UnloadedModel> create_qwen3_moe(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_qwen3_moe(checkpoint.config));
  return make_text_model("qwen3-moe", checkpoint, std::move(decoder), {});
}

// Qwen3.5 text models (Qwen3_5ForCausalLM): what Qwen3.5 is without its tower. Reference:
// transformers' models/qwen3_5; gated delta nets: arXiv:2412.06464.
//
// Odd things:
//  - Three layers of four keep a state of one size instead of keys and values: a convolution over
//    four tokens, then a matrix for each value head.
//  - The others put a gate on what each head gives, and turn a quarter of a head's dimensions.
//  - Norms are of 1 + w, but for the delta nets' own.
// All three axes of a text's positions are its order.
Result<UnloadedModel> create_qwen3_5_text(const Checkpoint& checkpoint) {
  TRY(DecoderConfig decoder, parse_qwen3_5(checkpoint.config));
  decoder.settings.rope.axis.clear();
  decoder.position_axes = 1;
  return make_text_model("qwen3.5-text", checkpoint, std::move(decoder), qwen3_5_names("model."));
}

}  // namespace
}  // namespace text_families

extern const Family kLlama3;
const Family kLlama3 = {.name = "llama-3",
                        .architectures = {"LlamaForCausalLM"},
                        .model_types = {"llama"},
                        .create = text_families::create_llama3};

extern const Family kMistral;
const Family kMistral = {.name = "mistral",
                         .architectures = {"MistralForCausalLM"},
                         .model_types = {"mistral"},
                         .create = text_families::create_mistral};

extern const Family kQwen2;
const Family kQwen2 = {.name = "qwen2",
                       .architectures = {"Qwen2ForCausalLM"},
                       .model_types = {"qwen2"},
                       .create = text_families::create_qwen2};

extern const Family kQwen3;
const Family kQwen3 = {.name = "qwen3",
                       .architectures = {"Qwen3ForCausalLM"},
                       .model_types = {"qwen3"},
                       .create = text_families::create_qwen3};

extern const Family kQwen3Moe;
const Family kQwen3Moe = {.name = "qwen3-moe",
                          .architectures = {"Qwen3MoeForCausalLM"},
                          .model_types = {"qwen3_moe"},
                          .create = text_families::create_qwen3_moe};

extern const Family kQwen35Text;
const Family kQwen35Text = {.name = "qwen3.5-text",
                            .architectures = {"Qwen3_5ForCausalLM"},
                            .model_types = {"qwen3_5_text"},
                            .create = text_families::create_qwen3_5_text};

}  // namespace saccade
