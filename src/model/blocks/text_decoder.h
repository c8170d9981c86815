// The text half of every family: a pre-norm decoder over paged keys and values. What differs
// between families is in its settings, and how their checkpoints name it in DecoderNames.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/adapters/lora_rows.h"
#include "model/blocks/blocks.h"
#include "model/blocks/expert_block.h"
#include "model/blocks/scratch.h"
#include "model/checkpoint/weight_table.h"
#include "model/network.h"
#include "ops/team/collective.h"

namespace saccade {

// Angles: pair p of a head turns by position[axis[p]] * inv_freq[p].
struct RopeSettings {
  std::vector<float> inv_freq;     // [head_dim / 2], or fewer: the rest is not turned
  std::vector<std::uint8_t> axis;  // [pairs], or empty: all axis 0
  float scale = 1;                 // of cos and sin
  // LongRoPE (arXiv:2402.13753): all tokens of a sequence longer than this turn by long_inv_freq.
  // 0: inv_freq is for every length.
  std::int64_t short_length = 0;
  std::vector<float> long_inv_freq;  // [pairs]
  // Dynamic NTK (factor 0: none): where the longest sequence that there may be is over `ntk_length`
  // tokens, every position turns by the frequencies of that length. The reference takes the length
  // of the moment, which a cache of turned keys could not follow.
  double theta = 0;
  double ntk_factor = 0;
  std::int64_t ntk_length = 0;
};

// inv_freq, or those of sequences of up to `length` tokens.
std::vector<float> frequencies_for(const RopeSettings& rope, std::int64_t length);

// Layers of a gated delta net (arXiv:2412.06464): a short convolution, and a state for each value
// head that keys write to and queries read.
struct DeltaNetSettings {
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;  // a multiple
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t taps = 0;  // tokens of the convolution

  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return value_heads * value_dim; }
  std::int64_t convolved() const { return 2 * keys() + values(); }
  // Elements of what a layer keeps: the convolution's tokens, then the heads' states.
  std::int64_t window() const { return (taps - 1) * convolved(); }
  std::int64_t state() const { return window() + value_heads * key_dim * value_dim; }
};

struct DecoderSettings {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::vector<LayerShape> layers;

  NormStyle norm;
  bool qkv_bias = false;
  bool out_bias = false;        // of the matrix after attention
  bool mlp_bias = false;        // of all three
  bool qk_norm = false;         // each head's query and key, before they turn (Qwen3, Gemma-3)
  bool attention_gate = false;  // each head's result times the sigmoid of a gate beside its query
  bool post_norms = false;      // Gemma-2: also after attention and after the MLP
  Activation activation = Activation::kSilu;
  RopeSettings rope;
  RopeSettings window_rope = {};  // of layers with a window; without frequencies: as all others
  float attention_scale = 1;      // of q k^T
  float attention_softcap = 0;    // 0: none
  float logit_softcap = 0;        // 0: none
  // After layer i < deepstack the rows of images take slice 1 + i of their embedding rows besides.
  std::int64_t deepstack = 0;
  float embedding_scale = 1;
  bool round_embedding_scale = false;  // to bf16 when the weights are (Gemma)
  bool tied_head = false;              // the embedding is the head, unless two are stored
  ExpertSettings experts = {};         // of layers that have several MLPs
  DeltaNetSettings delta = {};         // of layers that keep a state
  std::int64_t placeholders = 0;       // rows of the embedding after the vocabulary's, of no logit

  bool attends_across(std::size_t layer) const {
    return layers[layer].kind == LayerKind::kCrossAttention;
  }
  bool keeps_state(std::size_t layer) const { return layers[layer].kind == LayerKind::kRecurrent; }
  bool has_experts(std::size_t layer) const { return experts.count > 0 && experts.layers[layer]; }
};

// Of a layer that attends to images across; the last two are whole names of one number each.
struct CrossNames {
  std::string q = "cross_attn.q_proj";
  std::vector<std::string> kv = {"cross_attn.k_proj", "cross_attn.v_proj"};
  std::string q_norm = "cross_attn.q_norm";
  std::string k_norm = "cross_attn.k_norm";
  std::string attention_out = "cross_attn.o_proj";
  std::string attention_gate = "cross_attn_attn_gate";
  std::string mlp_gate = "cross_attn_mlp_gate";
};

// Of a layer that keeps a state; conv, a_log, dt_bias and norm are whole names.
struct DeltaNetNames {
  std::string qkv = "linear_attn.in_proj_qkv";
  std::string output_gate = "linear_attn.in_proj_z";
  std::string beta = "linear_attn.in_proj_b";
  std::string decay = "linear_attn.in_proj_a";
  std::string conv = "linear_attn.conv1d.weight";
  std::string a_log = "linear_attn.A_log";
  std::string dt_bias = "linear_attn.dt_bias";
  std::string norm = "linear_attn.norm.weight";
  std::string out = "linear_attn.out_proj";
};

// Tensor names below the embedding, the layers ("{}" is the layer's index) and the end.
struct DecoderNames {
  std::string embedding = "model.embed_tokens";
  std::string layer = "model.layers.{}.";
  std::string attention_norm = "input_layernorm";
  // Three names, or one for a matrix that holds all three. With attention_gate the first has each
  // head's query and then its gate.
  std::vector<std::string> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  // With one name: rows go by key head (its query heads, then its key, then its value), as in
  // InternLM2, instead of all queries first.
  bool qkv_by_key_head = false;
  // Rows 2 i and 2 i + 1 of a query's or a key's head turn together, instead of i and i + half of
  // what turns (GLM-4). They are put apart when they are packed, which changes no product of the
  // two.
  bool neighbours_turn = false;
  std::string q_norm = "self_attn.q_norm";  // with qk_norm
  std::string k_norm = "self_attn.k_norm";
  std::string attention_out = "self_attn.o_proj";
  std::string post_attention_norm;  // with post_norms
  std::string mlp_norm = "post_attention_layernorm";
  std::vector<std::string> gate_up = {"mlp.gate_proj", "mlp.up_proj"};  // two, or one for both
  std::string mlp_out = "mlp.down_proj";
  ExpertNames experts = {};   // in place of the last two
  CrossNames cross = {};      // of layers that attend across, in place of the self-attention's
  DeltaNetNames delta = {};   // of layers that keep a state, in place of the self-attention's
  std::string post_mlp_norm;  // with post_norms
  std::string norm = "model.norm";
  std::string head = "lm_head";
  std::string unread;  // what more a checkpoint may have, as WeightTable::ignore() takes it

  // With the embedding, the layers and the last norm below `model`: "language_model.model.".
  static DecoderNames under(const std::string& model, std::string_view head = "lm_head") {
    DecoderNames names;
    names.embedding = model + "embed_tokens";
    names.layer = model + "layers.{}.";
    names.norm = model + "norm";
    names.head = head;
    return names;
  }
};

// Engine thread after loading.
class TextDecoder {
 public:
  TextDecoder() = default;
  explicit TextDecoder(DecoderSettings settings);

  // This rank's own: with several ranks, heads and the MLP's width are shares.
  const DecoderSettings& settings() const { return settings_; }
  // Before add_weights(): this decoder is one of several, each with as many heads and as much of
  // every MLP; the embedding and the head are whole on all. forward() is called by all ranks with
  // the same batch, and all get the same bits. kUnsupported names what cannot be shared evenly.
  Result<void> split(Collective& ranks);
  void add_weights(WeightTable& table, const DecoderNames& names);
  void set_compute(DType compute);
  Result<void> reserve(Device& device, const Capacity& capacity);
  std::size_t scratch_bytes() const { return scratch_.bytes(); }
  // As Network's; none of a decoder that has been split.
  std::span<const LoraTarget> lora_targets() const { return lora_targets_; }
  DType compute() const { return compute_; }
  // Taps: text.embed, text.layer.N, text.deepstack.N (the layer's rows and the slice), text.norm,
  // logits.
  void forward(Stream& stream, const Batch& batch, const Tap& tap);
  // As Network::more_logits.
  void logits(Stream& stream, DeviceInts rows, View out);

 private:
  struct Layer {
    Norm attention_norm;
    Linear qkv;
    VectorWeight qk_norm;  // of every query and key head
    Linear attention_out;
    Norm post_attention_norm;
    Norm mlp_norm;
    Linear gate_up;
    Linear mlp_out;
    ExpertBlock experts;  // instead of both
    Norm post_mlp_norm;
    // Of a layer that attends across, whose qkv is its queries' alone and qk_norm theirs.
    Linear image_kv;
    VectorWeight image_k_norm;
    float attention_gate = 0;  // tanh of what is stored
    float mlp_gate = 0;
    // Of a layer that keeps a state, whose qkv is also the gates of what it puts out.
    Linear delta_gates;      // of every value head, beta's and then the decay's
    VectorWeight conv;       // [taps, convolved]
    VectorWeight a_log;      // [1, value heads]
    VectorWeight dt_bias;    // the same
    VectorWeight head_norm;  // of every value head
  };
  struct Angles {
    View cos;
    View sin;
  };

  // --- text_decoder_cross.cc: layers that attend to images ---
  // Of one block table: images' rows on their way into the pool, in slices that the scratch holds,
  // and the rows that see them.
  struct CrossPlan {
    struct Slice {
      std::int64_t begin = 0;  // of Batch::image_rows
      const AttentionPlan* plan = nullptr;
    };
    int group = 0;
    std::vector<Slice> images;
    const AttentionPlan* seeing = nullptr;
  };
  void add_cross_weights(WeightTable& table, const DecoderNames& names, Layer& layer,
                         const std::string& at, std::int64_t rank, std::int64_t ranks);
  std::vector<CrossPlan> plan_cross(Stream& stream, const Batch& batch) const;
  void write_images(Stream& stream, const Layer& layer, const KvLayer& kv, const CrossPlan& plan,
                    const Batch& batch);
  void cross_layer(Stream& stream, const Layer& layer, const KvBinding& kv,
                   std::span<const CrossPlan> plans, const Batch& batch, View x);

  // --- text_decoder_recurrent.cc: layers that keep a state ---
  // Where the states of one block table are in this step.
  struct StatePlan {
    int group = 0;
    StateSpans spans;
  };
  void add_recurrent_weights(WeightTable& table, const DecoderNames& names, Layer& layer,
                             const std::string& at);
  std::string recurrent_layers() const;  // "0, 1, 2 and 15 more"; empty: none
  std::vector<StatePlan> plan_states(Stream& stream, const Batch& batch) const;
  void recurrent_layer(Stream& stream, const Layer& layer, const KvBinding& kv,
                       std::span<const StatePlan> plans, View x);

  void embed(Stream& stream, const Batch& batch, View x);
  // The angles of the batch's rows: of the full layers, and of those with a window.
  Angles turn(Stream& stream, const Batch& batch) const;
  Angles turn_in_windows(Stream& stream, const Batch& batch, const Angles& full) const;
  // One for each layer; layers of one block table and geometry share it. Null where one attends
  // across or keeps a state.
  std::vector<const AttentionPlan*> plan(Stream& stream, const Batch& batch) const;
  void attention(Stream& stream, const Layer& layer, const KvLayer& kv, const AttentionPlan& plan,
                 const Angles& angles, View x);
  void mlp(Stream& stream, const Layer& layer, View x);
  // out = norm(x)
  NormArgs norm_of(const Norm& norm, View x, View out) const;
  // Of what `norm` makes, rows.x.
  void gated_mlp(Stream& stream, const LoraAdder& lora, const Layer& layer, const NormArgs& norm,
                 const MlpRows& rows) const;
  void mlp_in_parts(Stream& stream, const LoraAdder& lora, const Layer& layer,
                    const MlpRows& rows) const;
  void experts(Stream& stream, const Layer& layer, View normed, View x);
  void add_mlp_weights(WeightTable& table, const DecoderNames& names, std::size_t index,
                       const std::string& at);
  void add_slice(Stream& stream, const Batch& batch, std::int64_t slice, View x);
  // y = part W^T, or that added to y: the product that ends a block, added up over ranks.
  void end_block(Stream& stream, const LoraAdder& lora, const Linear& linear, View part, View y,
                 bool add) const;
  // With several ranks the first one's product carries what is added to.
  bool carries_residual() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  void sum_over_ranks(Stream& stream, View y) const;

  DecoderSettings settings_;
  Collective* ranks_ = nullptr;  // null: this decoder is whole
  DType compute_ = DType::kF32;
  float embedding_scale_ = 1;
  EmbeddingTable embedding_;  // empty with a tied head: rows of head_
  std::vector<Layer> layers_;
  Norm norm_;
  Linear head_;
  std::vector<LoraTarget> lora_targets_;
  LoraAdder lora_;

  Scratch scratch_;
  View hidden_;           // [rows, hidden] the residual stream
  View normed_;           // [rows, hidden]
  View qkv_;              // [rows, (heads + 2 kv_heads) * head_dim], and before them the gates
  View attention_;        // [rows, heads * head_dim]
  View gate_up_;          // [rows, 2 * intermediate]
  View inv_freq_;         // [1 or 2, pairs] of rope, for the longest sequence; of long sequences
  View axis_;             // [1, pairs] u8, or empty
  View cos_;              // [rows, pairs]
  View sin_;              // [rows, pairs]
  View window_inv_freq_;  // the same by window_rope
  View window_axis_;
  View window_cos_;
  View window_sin_;
  View delta_;          // [rows, convolved + values] of layers that keep a state
  View delta_gates_;    // [rows, 2 * value heads]
  View seeing_;         // [rows, hidden] the rows that see an image, with layers that attend across
  View last_;           // [logit rows, hidden]
  View router_logits_;  // [rows, experts]
  View gathered_;       // [rows, hidden] what ExpertsArgs wants
  View expert_inner_;   // [rows, 2 * experts' intermediate]
  View expert_part_;    // [rows, hidden]
};

// A decoder layer's tensors do not name the model's limits; these do.
Result<void> check_decoder(const DecoderSettings& settings);

}  // namespace saccade
