#include "model/gguf/gguf_family.h"

#include <string>

#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_tower_config.h"

namespace saccade {
namespace {

using enum GgufChange;

constexpr std::array kTextRows = {
    GgufRow{{"token_embd"}, "embed_tokens"},
    GgufRow{{"output_norm"}, "norm", kNorm},
    GgufRow{{"blk.{}.attn_norm"}, "layers.{}.input_layernorm", kNorm},
    GgufRow{{"blk.{}.attn_q"}, "layers.{}.self_attn.q_proj", kQuery},
    GgufRow{{"blk.{}.attn_k"}, "layers.{}.self_attn.k_proj", kKey},
    GgufRow{{"blk.{}.attn_v"}, "layers.{}.self_attn.v_proj"},
    GgufRow{{"blk.{}.attn_output"}, "layers.{}.self_attn.o_proj"},
    GgufRow{{"blk.{}.attn_q_norm"}, "layers.{}.self_attn.q_norm", kNorm},
    GgufRow{{"blk.{}.attn_k_norm"}, "layers.{}.self_attn.k_norm", kNorm},
    GgufRow{{"blk.{}.ffn_gate"}, "layers.{}.mlp.gate_proj"},
    GgufRow{{"blk.{}.ffn_up"}, "layers.{}.mlp.up_proj"},
    GgufRow{{"blk.{}.ffn_down"}, "layers.{}.mlp.down_proj"},
    GgufRow{{"blk.{}.ffn_gate_inp"}, "layers.{}.mlp.gate"},
};
constexpr std::array kPlainLayers = {
    GgufRow{{"blk.{}.ffn_norm"}, "layers.{}.post_attention_layernorm", kNorm},
};
constexpr std::array kGemmaLayers = {
    GgufRow{{"blk.{}.post_attention_norm"}, "layers.{}.post_attention_layernorm", kNorm},
    GgufRow{{"blk.{}.ffn_norm"}, "layers.{}.pre_feedforward_layernorm", kNorm},
    GgufRow{{"blk.{}.post_ffw_norm"}, "layers.{}.post_feedforward_layernorm", kNorm},
};
constexpr std::array kExpertLayers = {
    GgufRow{{"blk.{}.ffn_norm"}, "layers.{}.post_attention_layernorm", kNorm},
    GgufRow{{"blk.{}.ffn_gate_exps"}, "layers.{}.mlp.experts.{}.gate_proj", kEachExpert},
    GgufRow{{"blk.{}.ffn_up_exps"}, "layers.{}.mlp.experts.{}.up_proj", kEachExpert},
    GgufRow{{"blk.{}.ffn_down_exps"}, "layers.{}.mlp.experts.{}.down_proj", kEachExpert},
};
constexpr std::array kStackedExpertLayers = {
    GgufRow{{"blk.{}.ffn_norm"}, "layers.{}.post_attention_layernorm", kNorm},
    GgufRow{{"blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_up_exps.weight"},
            "layers.{}.mlp.experts.gate_up_proj",
            kGateUp,
            true},
    GgufRow{{"blk.{}.ffn_down_exps.weight"}, "layers.{}.mlp.experts.down_proj", kNone, true},
};

// Qwen3.5: most layers are a gated delta net, whose own norm is the one that has no one added.
constexpr std::array kQwen35Layers = {
    GgufRow{{"blk.{}.post_attention_norm"}, "layers.{}.post_attention_layernorm", kNorm},
    GgufRow{{"blk.{}.attn_qkv"}, "layers.{}.linear_attn.in_proj_qkv", kValueTail},
    GgufRow{{"blk.{}.attn_gate"}, "layers.{}.linear_attn.in_proj_z", kValueRows},
    GgufRow{{"blk.{}.ssm_alpha"}, "layers.{}.linear_attn.in_proj_a", kValueRows},
    GgufRow{{"blk.{}.ssm_beta"}, "layers.{}.linear_attn.in_proj_b", kValueRows},
    GgufRow{{"blk.{}.ssm_a"}, "layers.{}.linear_attn.A_log", kValueDecay, true},
    GgufRow{{"blk.{}.ssm_dt.bias"}, "layers.{}.linear_attn.dt_bias", kValueRows, true},
    GgufRow{{"blk.{}.ssm_conv1d"}, "layers.{}.linear_attn.conv1d", kValueTaps},
    GgufRow{{"blk.{}.ssm_norm"}, "layers.{}.linear_attn.norm"},
    GgufRow{{"blk.{}.ssm_out"}, "layers.{}.linear_attn.out_proj", kValueColumns},
};

constexpr std::array kQwen2Tower = {
    GgufRow{{"v.patch_embd.weight", "v.patch_embd.weight.1"},
            "visual.patch_embed.proj.weight",
            kFrames,
            true},
    GgufRow{{"v.blk.{}.attn_q", "v.blk.{}.attn_k", "v.blk.{}.attn_v"},
            "visual.blocks.{}.attn.qkv",
            kStacked},
    GgufRow{{"v.blk.{}.attn_out"}, "visual.blocks.{}.attn.proj"},
    GgufRow{{"v.blk.{}.ln1"}, "visual.blocks.{}.norm1"},
    GgufRow{{"v.blk.{}.ln2"}, "visual.blocks.{}.norm2"},
    GgufRow{{"v.blk.{}.ffn_up"}, "visual.blocks.{}.mlp.fc1"},
    GgufRow{{"v.blk.{}.ffn_down"}, "visual.blocks.{}.mlp.fc2"},
    GgufRow{{"v.post_ln"}, "visual.merger.ln_q"},
    GgufRow{{"mm.0"}, "visual.merger.mlp.0"},
    GgufRow{{"mm.2"}, "visual.merger.mlp.2"},
};
constexpr std::array kQwen25Tower = {
    kQwen2Tower[0],
    kQwen2Tower[1],
    kQwen2Tower[2],
    kQwen2Tower[3],
    kQwen2Tower[4],
    GgufRow{{"v.blk.{}.ffn_gate"}, "visual.blocks.{}.mlp.gate_proj"},
    GgufRow{{"v.blk.{}.ffn_up"}, "visual.blocks.{}.mlp.up_proj"},
    GgufRow{{"v.blk.{}.ffn_down"}, "visual.blocks.{}.mlp.down_proj"},
    kQwen2Tower[7],
    kQwen2Tower[8],
    kQwen2Tower[9],
};
constexpr std::array kQwen3Tower = {
    GgufRow{{"v.patch_embd.weight", "v.patch_embd.weight.1"},
            "model.visual.patch_embed.proj.weight",
            kFrames,
            true},
    GgufRow{{"v.patch_embd.bias"}, "model.visual.patch_embed.proj.bias", kNone, true},
    GgufRow{{"v.position_embd"}, "model.visual.pos_embed"},
    GgufRow{{"v.blk.{}.attn_qkv"}, "model.visual.blocks.{}.attn.qkv"},
    GgufRow{{"v.blk.{}.attn_out"}, "model.visual.blocks.{}.attn.proj"},
    GgufRow{{"v.blk.{}.ln1"}, "model.visual.blocks.{}.norm1"},
    GgufRow{{"v.blk.{}.ln2"}, "model.visual.blocks.{}.norm2"},
    GgufRow{{"v.blk.{}.ffn_up"}, "model.visual.blocks.{}.mlp.linear_fc1"},
    GgufRow{{"v.blk.{}.ffn_down"}, "model.visual.blocks.{}.mlp.linear_fc2"},
    GgufRow{{"v.post_ln"}, "model.visual.merger.norm"},
    GgufRow{{"mm.0"}, "model.visual.merger.linear_fc1"},
    GgufRow{{"mm.2"}, "model.visual.merger.linear_fc2"},
    // Numbered by their layer in one and by their order in the other: the n-th that there is.
    GgufRow{{"v.deepstack.{}.norm"}, "model.visual.deepstack_merger_list.{}.norm"},
    GgufRow{{"v.deepstack.{}.fc1"}, "model.visual.deepstack_merger_list.{}.linear_fc1"},
    GgufRow{{"v.deepstack.{}.fc2"}, "model.visual.deepstack_merger_list.{}.linear_fc2"},
};

// SigLIP, after the prefix that the family has for it.
constexpr std::array kSiglipRows = {
    GgufRow{{"v.patch_embd"}, "embeddings.patch_embedding"},
    GgufRow{{"v.position_embd"}, "embeddings.position_embedding"},
    GgufRow{{"v.blk.{}.attn_q"}, "encoder.layers.{}.self_attn.q_proj"},
    GgufRow{{"v.blk.{}.attn_k"}, "encoder.layers.{}.self_attn.k_proj"},
    GgufRow{{"v.blk.{}.attn_v"}, "encoder.layers.{}.self_attn.v_proj"},
    GgufRow{{"v.blk.{}.attn_out"}, "encoder.layers.{}.self_attn.out_proj"},
    GgufRow{{"v.blk.{}.ln1"}, "encoder.layers.{}.layer_norm1"},
    GgufRow{{"v.blk.{}.ln2"}, "encoder.layers.{}.layer_norm2"},
    GgufRow{{"v.blk.{}.ffn_up"}, "encoder.layers.{}.mlp.fc1"},
    GgufRow{{"v.blk.{}.ffn_down"}, "encoder.layers.{}.mlp.fc2"},
};
constexpr std::string_view kHubSiglip = "vision_tower.vision_model.";
constexpr std::array kGemmaTower = {
    GgufRow{{"v.post_ln"}, "vision_tower.vision_model.post_layernorm"},
    GgufRow{{"mm.soft_emb_norm"}, "multi_modal_projector.mm_soft_emb_norm", kLessOne},
    GgufRow{{"mm.input_projection.weight"},
            "multi_modal_projector.mm_input_projection_weight",
            kNumbers,
            true},
};
// llama.cpp's converter for LLaVA, which leaves out the norm after the last layer: the tower has it
// and does not run it, so that whatever is of its width will do.
constexpr std::array kOnevisionTower = {
    GgufRow{{"v.blk.0.ln1"}, "vision_tower.vision_model.post_layernorm"},
    GgufRow{{"mm.0"}, "multi_modal_projector.linear_1"},
    GgufRow{{"mm.2"}, "multi_modal_projector.linear_2"},
    GgufRow{{"model.image_newline"}, "image_newline", kNone, true},
    GgufRow{{"v.image_newline"}, "image_newline", kNone, true},
};
constexpr std::array kSmolVlmTower = {
    GgufRow{{"v.post_ln"}, "model.vision_model.post_layernorm"},
    GgufRow{{"mm.model.fc"}, "model.connector.modality_projection.proj"},
};
constexpr std::array kMiniCpmvTower = {
    GgufRow{{"v.post_ln"}, "model.vision_tower.post_layernorm"},
    GgufRow{{"v.vit_merger.ln1"}, "model.vision_tower.vit_merger.layer_norm1"},
    GgufRow{{"v.vit_merger.attn_q"}, "model.vision_tower.vit_merger.self_attn.q_proj"},
    GgufRow{{"v.vit_merger.attn_k"}, "model.vision_tower.vit_merger.self_attn.k_proj"},
    GgufRow{{"v.vit_merger.attn_v"}, "model.vision_tower.vit_merger.self_attn.v_proj"},
    GgufRow{{"v.vit_merger.attn_out"}, "model.vision_tower.vit_merger.self_attn.out_proj"},
    GgufRow{{"v.vit_merger.ds_ln"}, "model.vision_tower.vit_merger.pre_norm"},
    GgufRow{{"v.vit_merger.ds_ffn_up"}, "model.vision_tower.vit_merger.linear_1"},
    GgufRow{{"v.vit_merger.ds_ffn_down"}, "model.vision_tower.vit_merger.linear_2"},
    GgufRow{{"mm.input_norm"}, "model.merger.mlp.0.pre_norm"},
    GgufRow{{"mm.up"}, "model.merger.mlp.0.linear_1"},
    GgufRow{{"mm.down"}, "model.merger.mlp.0.linear_2"},
};
constexpr std::array kPixtralTower = {
    GgufRow{{"v.patch_embd"}, "vision_tower.patch_conv"},
    GgufRow{{"v.pre_ln"}, "vision_tower.ln_pre"},
    GgufRow{
        {"v.blk.{}.attn_q"}, "vision_tower.transformer.layers.{}.attention.q_proj", kTowerHeads},
    GgufRow{
        {"v.blk.{}.attn_k"}, "vision_tower.transformer.layers.{}.attention.k_proj", kTowerHeads},
    GgufRow{{"v.blk.{}.attn_v"}, "vision_tower.transformer.layers.{}.attention.v_proj"},
    GgufRow{{"v.blk.{}.attn_out"}, "vision_tower.transformer.layers.{}.attention.o_proj"},
    GgufRow{{"v.blk.{}.ln1"}, "vision_tower.transformer.layers.{}.attention_norm"},
    GgufRow{{"v.blk.{}.ln2"}, "vision_tower.transformer.layers.{}.ffn_norm"},
    GgufRow{{"v.blk.{}.ffn_gate"}, "vision_tower.transformer.layers.{}.feed_forward.gate_proj"},
    GgufRow{{"v.blk.{}.ffn_up"}, "vision_tower.transformer.layers.{}.feed_forward.up_proj"},
    GgufRow{{"v.blk.{}.ffn_down"}, "vision_tower.transformer.layers.{}.feed_forward.down_proj"},
    GgufRow{{"mm.1"}, "multi_modal_projector.linear_1"},
    GgufRow{{"mm.2"}, "multi_modal_projector.linear_2"},
    GgufRow{{"mm.input_norm"}, "multi_modal_projector.norm"},
    GgufRow{{"mm.patch_merger"}, "multi_modal_projector.patch_merger.merging_layer"},
};
constexpr std::array kInternTower = {
    GgufRow{{"v.class_embd"}, "vision_tower.embeddings.cls_token", kTokens, true},
    GgufRow{
        {"v.position_embd.weight"}, "vision_tower.embeddings.position_embeddings", kTokens, true},
    GgufRow{{"v.patch_embd"}, "vision_tower.embeddings.patch_embeddings.projection"},
    GgufRow{{"v.blk.{}.attn_q"}, "vision_tower.encoder.layer.{}.attention.q_proj"},
    GgufRow{{"v.blk.{}.attn_k"}, "vision_tower.encoder.layer.{}.attention.k_proj"},
    GgufRow{{"v.blk.{}.attn_v"}, "vision_tower.encoder.layer.{}.attention.v_proj"},
    GgufRow{{"v.blk.{}.attn_q_norm"}, "vision_tower.encoder.layer.{}.attention.q_norm"},
    GgufRow{{"v.blk.{}.attn_k_norm"}, "vision_tower.encoder.layer.{}.attention.k_norm"},
    GgufRow{{"v.blk.{}.attn_out"}, "vision_tower.encoder.layer.{}.attention.projection_layer"},
    GgufRow{{"v.blk.{}.ln1"}, "vision_tower.encoder.layer.{}.layernorm_before"},
    GgufRow{{"v.blk.{}.ln2"}, "vision_tower.encoder.layer.{}.layernorm_after"},
    GgufRow{{"v.blk.{}.ls1.weight"}, "vision_tower.encoder.layer.{}.lambda_1", kNone, true},
    GgufRow{{"v.blk.{}.ls2.weight"}, "vision_tower.encoder.layer.{}.lambda_2", kNone, true},
    GgufRow{{"v.blk.{}.ffn_up"}, "vision_tower.encoder.layer.{}.mlp.fc1"},
    GgufRow{{"v.blk.{}.ffn_down"}, "vision_tower.encoder.layer.{}.mlp.fc2"},
    GgufRow{{"mm.model.mlp.0"}, "multi_modal_projector.layer_norm"},
    GgufRow{{"mm.model.mlp.1"}, "multi_modal_projector.linear_1"},
    GgufRow{{"mm.model.mlp.3"}, "multi_modal_projector.linear_2"},
};

constexpr GgufFamily kGgufLlama = {.architecture = "llama",
                                   .projector = "",
                                   .class_name = "LlamaForCausalLM",
                                   .model_type = "llama",
                                   .text_type = "",
                                   .text_prefix = "model.",
                                   .head = "lm_head",
                                   .heads_interleaved = true,
                                   .layers = kPlainLayers,
                                   .add_text = add_llama_text};
constexpr GgufFamily kGgufQwen2 = {.architecture = "qwen2",
                                   .projector = "",
                                   .class_name = "Qwen2ForCausalLM",
                                   .model_type = "qwen2",
                                   .text_type = "",
                                   .text_prefix = "model.",
                                   .head = "lm_head",
                                   .layers = kPlainLayers};
constexpr GgufFamily kGgufQwen35 = {.architecture = "qwen35",
                                    .projector = "",
                                    .class_name = "Qwen3_5ForCausalLM",
                                    .model_type = "qwen3_5_text",
                                    .text_type = "",
                                    .text_prefix = "model.",
                                    .head = "lm_head",
                                    .norms_plus_one = true,
                                    .layers = kQwen35Layers,
                                    .add_text = add_qwen35_text};
constexpr GgufFamily kGgufQwen3Moe = {.architecture = "qwen3moe",
                                      .projector = "",
                                      .class_name = "Qwen3MoeForCausalLM",
                                      .model_type = "qwen3_moe",
                                      .text_type = "",
                                      .text_prefix = "model.",
                                      .head = "lm_head",
                                      .layers = kExpertLayers,
                                      .add_text = add_expert_text};
constexpr GgufFamily kGgufGemma3 = {.architecture = "gemma3",
                                    .projector = "",
                                    .class_name = "Gemma3ForCausalLM",
                                    .model_type = "gemma3_text",
                                    .text_type = "",
                                    .text_prefix = "model.",
                                    .head = "lm_head",
                                    .norms_plus_one = true,
                                    .layers = kGemmaLayers,
                                    .add_text = add_gemma_text};

constexpr GgufFamily as(GgufFamily family, std::string_view architecture,
                        std::string_view class_name, std::string_view model_type) {
  family.architecture = architecture;
  family.class_name = class_name;
  family.model_type = model_type;
  return family;
}

using AddTower = Result<void> (*)(const GgufModel&, json::object&, json::object&);

// With images: the text's members in text_config where `text_type` says what it is.
constexpr GgufFamily seeing(GgufFamily family, std::string_view projector,
                            std::string_view text_type, std::string_view text_prefix,
                            std::span<const GgufRow> tower, AddTower add_tower) {
  family.projector = projector;
  family.text_type = text_type;
  family.text_prefix = text_prefix;
  family.tower = tower;
  family.add_tower = add_tower;
  return family;
}

constexpr GgufFamily headed(GgufFamily family, std::string_view head) {
  family.head = head;
  return family;
}

constexpr GgufFamily siglip_under(std::string_view prefix, GgufFamily family) {
  family.siglip_prefix = prefix;
  return family;
}

constexpr GgufFamily stacked(GgufFamily family) {
  family.stacked_experts = true;
  family.layers = kStackedExpertLayers;
  return family;
}

constexpr std::string_view kIntern = "InternVLForConditionalGeneration";
constexpr std::string_view kInternText = "language_model.model.";
constexpr std::string_view kInternHead = "language_model.lm_head";

// Text whose positions have three axes turns by one where there are no images, as Qwen2's and
// Qwen3's does.
constexpr std::array kGgufFamilies = {
    kGgufLlama,
    kGgufQwen2,
    as(kGgufQwen2, "qwen2vl", "Qwen2ForCausalLM", "qwen2"),
    as(kGgufQwen2, "qwen3", "Qwen3ForCausalLM", "qwen3"),
    as(kGgufQwen2, "qwen3vl", "Qwen3ForCausalLM", "qwen3"),
    kGgufQwen35,
    kGgufQwen3Moe,
    as(kGgufQwen3Moe, "qwen3vlmoe", "Qwen3MoeForCausalLM", "qwen3_moe"),
    kGgufGemma3,
    seeing(as(kGgufQwen2, "qwen2vl", "Qwen2VLForConditionalGeneration", "qwen2_vl"),
           "qwen2vl_merger", "", "model.", kQwen2Tower, add_qwen2_tower),
    seeing(as(kGgufQwen2, "qwen2vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"),
           "qwen2.5vl_merger", "", "model.", kQwen25Tower, add_qwen25_tower),
    seeing(as(kGgufQwen2, "qwen3vl", "Qwen3VLForConditionalGeneration", "qwen3_vl"),
           "qwen3vl_merger", "qwen3_vl_text", "model.language_model.", kQwen3Tower,
           add_qwen3_tower),
    seeing(stacked(as(kGgufQwen3Moe, "qwen3vlmoe", "Qwen3VLMoeForConditionalGeneration",
                      "qwen3_vl_moe")),
           "qwen3vl_merger", "qwen3_vl_moe_text", "model.language_model.", kQwen3Tower,
           add_qwen3_tower),
    siglip_under(
        kHubSiglip,
        seeing(as(kGgufGemma3, "gemma3", "Gemma3ForConditionalGeneration", "gemma3"), "gemma3",
               "gemma3_text", "language_model.model.", kGemmaTower, add_gemma_tower)),
    siglip_under(
        "model.vision_model.",
        seeing(as(kGgufLlama, "llama", "SmolVLMForConditionalGeneration", "smolvlm"), "idefics3",
               "llama", "model.text_model.", kSmolVlmTower, add_smolvlm_tower)),
    headed(seeing(as(kGgufLlama, "llama", "LlavaForConditionalGeneration", "llava"), "pixtral",
                  "mistral", "language_model.model.", kPixtralTower, add_pixtral_tower),
           "language_model.lm_head"),
    seeing(as(kGgufQwen35, "qwen35", "Qwen3_5ForConditionalGeneration", "qwen3_5"),
           "qwen3vl_merger", "qwen3_5_text", "model.language_model.", kQwen3Tower, add_qwen3_tower),
    siglip_under(
        "model.vision_tower.",
        seeing(as(kGgufQwen35, "qwen35", "MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6"),
               "minicpmv4_6", "qwen3_5_text", "model.language_model.", kMiniCpmvTower,
               add_minicpmv_tower)),
    siglip_under(kHubSiglip,
                 headed(seeing(as(kGgufQwen2, "qwen2", "LlavaOnevisionForConditionalGeneration",
                                  "llava_onevision"),
                               "mlp", "qwen2", "language_model.model.", kOnevisionTower,
                               add_onevision_tower),
                        "language_model.lm_head")),
    headed(seeing(as(kGgufQwen2, "qwen2", kIntern, "internvl"), "internvl", "qwen2", kInternText,
                  kInternTower, add_intern_tower),
           kInternHead),
    headed(seeing(as(kGgufQwen2, "qwen3", kIntern, "internvl"), "internvl", "qwen3", kInternText,
                  kInternTower, add_intern_tower),
           kInternHead),
    headed(seeing(as(kGgufLlama, "llama", kIntern, "internvl"), "internvl", "llama", kInternText,
                  kInternTower, add_intern_tower),
           kInternHead),
};

}  // namespace

std::span<const GgufRow> gguf_text_rows() { return kTextRows; }
std::span<const GgufRow> gguf_siglip_rows() { return kSiglipRows; }

Result<const GgufFamily*> gguf_family_of(const GgufModel& model) {
  std::string known;
  std::string_view last;
  bool text_known = false;
  for (const GgufFamily& family : kGgufFamilies) {
    const bool text = family.architecture == model.architecture();
    if (text && family.projector == model.projector_type()) return &family;
    text_known = text_known || text;
    if (family.projector.empty() && family.architecture != last)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", family.architecture);
    last = family.architecture;
  }
  if (!text_known)
    return fail(ErrorCode::kUnsupported,
                "{}: general.architecture is \"{}\"; {} are read (docs/gguf.md)",
                model.files().front().path, model.architecture(), known);
  return fail(ErrorCode::kUnsupported,
              "{}: clip.projector_type is \"{}\", which is not read beside a text of \"{}\" "
              "(docs/gguf.md)",
              model.files().back().path, model.projector_type(), model.architecture());
}

}  // namespace saccade
