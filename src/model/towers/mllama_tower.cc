#include "model/towers/mllama_tower.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "model/blocks/scratch.h"
#include "model/blocks/tanh_gate.h"
#include "model/towers/patch_steps.h"
#include "model/towers/tower_weights.h"
#include "model/towers/vision_stack.h"
#include "ops/formats/stored_matrix.h"

namespace saccade {
namespace {

constexpr std::int64_t kKeyBlock = 64;   // rows a block of the keys that a layer attends to
constexpr std::int64_t kQueryRows = 64;  // that attend together, where a layer is cut

// The norms around the transformers have the framework's epsilon, whatever the layers' is.
constexpr NormStyle kOuterNorm = {.epsilon = 1e-5f, .weight_offset = 0, .subtract_mean = true};

// NAME.weight [out, width * (1 + inner)], whose inputs are the last layer's, then of every channel
// the inner layers' one after the other, as rows that have one layer after the other.
void add_projector(WeightTable& table, Linear& into, const std::string& name, std::int64_t out,
                   std::int64_t width, std::int64_t inner) {
  table.row({{name + ".weight", {out, width * (1 + inner)}, TensorKind::kMatrix}},
            [&into, out, width, inner](const WeightTable::Tensors& tensors, Device& device,
                                       DType compute) -> Result<std::size_t> {
              const std::int64_t all = width * (1 + inner);
              std::vector<float> stored(static_cast<std::size_t>(all));
              std::vector<float> turned(static_cast<std::size_t>(out * all));
              const StoredMatrixReader reader(tensors.matrices.front());
              for (std::int64_t row = 0; row < out; ++row) {
                reader.read(row, row + 1, 0, all, stored.data(), all);
                float* to = std::copy_n(stored.data(), width, turned.data() + row * all);
                for (std::int64_t layer = 0; layer < inner; ++layer) {
                  for (std::int64_t channel = 0; channel < width; ++channel)
                    *to++ = stored[static_cast<std::size_t>(width + channel * inner + layer)];
                }
              }
              const StoredMatrix whole = View(turned.data(), DType::kF32, out, all);
              into.weight = device.pack({&whole, 1}, compute);
              return into.weight->bytes();
            });
  table.bias(into.bias, name + ".bias", out);
}

std::vector<std::int32_t> counting(std::int64_t begin, std::int64_t count) {
  std::vector<std::int32_t> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), static_cast<std::int32_t>(begin));
  return list;
}

// Of an arrangement of tiles: its row of the embeddings.
std::int64_t ratio_index(std::int64_t across, std::int64_t down, std::int64_t most) {
  // As the reference lists them: (1, 1), (1, 2), ... (2, 1), ... as far as tiles go; 0 is no image.
  std::int64_t index = 0;
  for (std::int64_t first = 1; first <= down; ++first) {
    for (std::int64_t second = 1; second <= most; ++second) {
      if (first * second > most) break;
      ++index;
      if (first == down && second == across) return index;
    }
  }
  CHECK(false, "{} by {} tiles of at most {}", across, down, most);
  return 0;
}

class MllamaTower final : public VisionTower {
 public:
  explicit MllamaTower(MllamaTowerSettings settings) : settings_(std::move(settings)) {}

  void add_weights(WeightTable& table) override;
  void set_compute(DType compute) override { compute_ = compute; }
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::size_t scratch_bytes() const override { return memory_.bytes(); }
  std::unique_ptr<EncodeRun> begin(const EncodeArgs& args) override;

 private:
  friend class MllamaEncodeRun;
  struct Block {
    VisionBlock layer;
    float attention_gate = 1;
    float mlp_gate = 1;
  };
  // An embedding for each tile of each arrangement, behind a gate.
  struct TileEmbedding {
    EmbeddingTable table;  // [ratios + 1, tiles * width]
    float gate = 0;
  };

  void add_block(WeightTable& table, Block& block, const std::string& at, bool gated) const;
  void add_tile_embedding(WeightTable& table, TileEmbedding& into, const std::string& name) const;

  MllamaTowerSettings settings_;
  DType compute_ = DType::kF32;
  Linear patch_embed_;
  VectorWeight class_token_;
  EmbeddingTable positions_;       // [rows, width]
  EmbeddingTable tile_positions_;  // [ratios + 1, tiles * rows * width]
  float position_gate_ = 0;
  TileEmbedding before_;
  TileEmbedding after_;
  Norm first_norm_;
  Norm last_norm_;
  std::vector<Block> blocks_;  // those of the first transformer, then those of the second
  Linear projector_;

  Scratch memory_;
  PatchCut cut_;    // of a tile
  View hidden_;     // [all_rows, width]
  View normed_;     // [all_rows, width]
  View qkv_;        // [all_rows, 3 * width]
  View mixed_;      // [all_rows, width]
  View mlp_;        // [kMlpRows, inner]
  View keys_;       // [blocks of kKeyBlock, 2 * heads * kKeyBlock * head_dim] of one layer
  View features_;   // [tiles * rows, features]
  View projected_;  // [kMlpRows, out]
  View row_;        // [1, width]
};

void MllamaTower::add_tile_embedding(WeightTable& table, TileEmbedding& into,
                                     const std::string& name) const {
  const MllamaTowerSettings& s = settings_;
  table.embedding(into.table, name + ".embedding.weight", s.ratios + 1, s.tiles * s.width);
  add_tanh_gate(table, into.gate, name + ".gate");
}

void MllamaTower::add_block(WeightTable& table, Block& block, const std::string& at,
                            bool gated) const {
  const MllamaTowerSettings& s = settings_;
  static const VisionBlockNames kNames = {
      "input_layernorm",  {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
      "self_attn.o_proj", "post_attention_layernorm",
      {"mlp.fc1"},        "mlp.fc2"};
  add_vision_block(table, block.layer, at, kNames,
                   {s.width, s.inner, s.norm, Bias::kNo, Bias::kNo});
  if (!gated) return;
  add_tanh_gate(table, block.attention_gate, at + "gate_attn");
  add_tanh_gate(table, block.mlp_gate, at + "gate_ffn");
}

void MllamaTower::add_weights(WeightTable& table) {
  const MllamaTowerSettings& s = settings_;
  const std::string at = "vision_model.";
  const std::string positions = at + "gated_positional_embedding.";
  blocks_.resize(static_cast<std::size_t>(s.layers + s.global_layers));
  table.patches(patch_embed_, at + "patch_embedding", {s.width, 3, s.patch, s.patch}, Bias::kNo);
  table.bias(class_token_, at + "class_embedding", s.width);
  table.embedding(positions_, positions + "embedding", s.rows(), s.width);
  table.embedding(tile_positions_, positions + "tile_embedding.weight", s.ratios + 1,
                  s.tiles * s.rows() * s.width);
  add_tanh_gate(table, position_gate_, positions + "gate");
  add_tile_embedding(table, before_, at + "pre_tile_positional_embedding");
  add_tile_embedding(table, after_, at + "post_tile_positional_embedding");
  add_norm(table, first_norm_, at + "layernorm_pre", s.width, kOuterNorm);
  add_norm(table, last_norm_, at + "layernorm_post", s.width, kOuterNorm);
  for (std::int64_t i = 0; i < s.layers + s.global_layers; ++i) {
    const bool gated = i >= s.layers;
    add_block(table, blocks_[static_cast<std::size_t>(i)],
              gated ? fmt::format("{}global_transformer.layers.{}.", at, i - s.layers)
                    : fmt::format("{}transformer.layers.{}.", at, i),
              gated);
  }
  add_projector(table, projector_, "multi_modal_projector", s.out, s.width,
                static_cast<std::int64_t>(s.inner_layers.size()));
}

Result<void> MllamaTower::reserve(Device& device, std::int64_t) {
  const MllamaTowerSettings& s = settings_;
  const DType type = device.activation_dtype();
  const std::int64_t rows = s.all_rows();
  const std::int64_t slice = std::min(rows, kMlpRows);
  cut_.add(memory_, type, s.patches(), 3 * s.patch * s.patch);
  memory_.add(hidden_, type, rows, s.width);
  memory_.add(normed_, type, rows, s.width);
  memory_.add(qkv_, type, rows, 3 * s.width);
  memory_.add(mixed_, type, rows, s.width);
  memory_.add(mlp_, type, slice, s.inner);
  memory_.add(keys_, compute_ == DType::kBf16 ? DType::kBf16 : type,
              (rows + kKeyBlock - 1) / kKeyBlock, 2 * s.width * kKeyBlock);
  memory_.add(features_, type, s.tiles * s.rows(), s.features());
  memory_.add(projected_, type, slice, s.out);
  memory_.add(row_, type, 1, s.width);
  return memory_.allocate(device);
}

// An image in the tower: its tiles' own rows, tile after tile; then the padding of each; then the
// tiles that it has not, each with its padding. What pads is seen by the image's rows and sees
// these, not itself: the reference's mask hides padding from padding alone.
class MllamaEncodeRun final : public TowerRun {
 public:
  MllamaEncodeRun(const EncodeArgs& args, const MllamaTower& tower)
      : TowerRun(args, tower.blocks_.size(), args.images.size()),
        tower_(tower),
        s_(tower.settings_),
        blocks_(counting(0, tower.keys_.rows())) {
    take_rows(tower_.hidden_, tower_.hidden_.rows());
  }

 private:
  std::int64_t own_rows() const { return tiles_ * s_.rows(); }
  View own(View of) const { return of.row_range(0, own_rows()); }
  // Of one of all tiles: its own rows, and its padding.
  View tile(std::int64_t index) const {
    const std::int64_t begin =
        index < tiles_ ? index * s_.rows() : index * (s_.rows() + s_.padding());
    return hidden_.row_range(begin, begin + s_.rows());
  }
  View padding(std::int64_t index) const {
    const std::int64_t begin = index < tiles_ ? own_rows() + index * s_.padding()
                                              : index * (s_.rows() + s_.padding()) + s_.rows();
    return hidden_.row_range(begin, begin + s_.padding());
  }

  void plan_attention() {
    const AttentionGeometry geometry = {.block_size = kKeyBlock,
                                        .heads = s_.heads,
                                        .kv_heads = s_.heads,
                                        .head_dim = s_.head_dim(),
                                        .window = 0};
    const std::int64_t all = s_.all_rows();
    const SequenceSpan whole = {.row_begin = 0, .row_count = all, .context = 0, .blocks = blocks_};
    written_ = &stream_.plan_attention({&whole, 1}, geometry);
    std::vector<SequenceSpan> spans = {
        {.row_begin = 0, .row_count = own_rows(), .context = 0, .prefix = all, .blocks = blocks_}};
    for (std::int64_t row = own_rows(); row < all; row += own_rows())
      spans.push_back({.row_begin = row,
                       .row_count = std::min(own_rows(), all - row),
                       .context = 0,
                       .prefix = own_rows(),
                       .blocks = blocks_});
    seen_ = &stream_.plan_attention(spans, geometry);
    some_see_.assign(static_cast<std::size_t>((all + kQueryRows - 1) / kQueryRows), nullptr);
  }

  // What some rows of seen_ see, by themselves.
  const AttentionPlan& some_see(std::int64_t begin, std::int64_t end) {
    const AttentionPlan*& plan = some_see_[static_cast<std::size_t>(begin / kQueryRows)];
    if (plan != nullptr) return *plan;
    const std::int64_t own = std::clamp(own_rows() - begin, std::int64_t{0}, end - begin);
    std::vector<SequenceSpan> spans;
    if (own > 0)
      spans.push_back({.row_begin = 0,
                       .row_count = own,
                       .context = 0,
                       .prefix = s_.all_rows(),
                       .blocks = blocks_});
    if (own < end - begin)
      spans.push_back({.row_begin = own,
                       .row_count = end - begin - own,
                       .context = 0,
                       .prefix = own_rows(),
                       .blocks = blocks_});
    plan = &stream_.plan_attention(spans, seen_->geometry());
    return *plan;
  }

  void embed(WorkList& works) override {
    const PreparedImage& image = *images_[image_];
    tiles_ = image.layout.grid_t;
    ratio_ = ratio_index(image.layout.resized_width / s_.image,
                         image.layout.resized_height / s_.image, s_.tiles);
    plan_attention();
    for (std::int64_t index = 0; index < s_.tiles; ++index) {
      if (index < tiles_) list_tile(works, image, index);
      works.once([this, index] { finish_tile(index); });
    }
    works.once([this] { show(tap_, stream_, "vision.patch_embed", own(hidden_)); });
  }

  void list_tile(WorkList& works, const PreparedImage& image, std::int64_t index) {
    const Linear& linear = tower_.patch_embed_;
    const double pixels = kPixelCost * static_cast<double>(linear.weight->in());
    works.add({.units = s_.patches(),
               .unit_cost = row_cost(linear) + pixels,
               .run = [this, &image, &linear, index](std::int64_t begin, std::int64_t end) {
                 const std::int64_t first = index * s_.patches();
                 apply_linear(stream_, linear,
                              tower_.cut_.cut(stream_, image, first + begin, first + end),
                              tile(index).row_range(1 + begin, 1 + end));
               }});
  }

  void finish_tile(std::int64_t index) {
    const View rows = tile(index);
    const View patches = rows.row_range(1, s_.rows());
    if (index < tiles_) {
      add_tile_embedding(tower_.before_, index, patches);
    } else {  // black beyond the norm: the convolution has no bias
      const std::vector<std::int32_t> repeated(static_cast<std::size_t>(s_.patches()),
                                               place(index));
      stream_.embed({.table = per_tile(tower_.before_.table.view),
                     .ids = stream_.upload(repeated),
                     .scale = tower_.before_.gate,
                     .out = patches});
    }
    stream_.copy(tower_.class_token_.view, rows.row_range(0, 1));
    add_positions(index, rows);
    apply_norm(stream_, tower_.first_norm_, kOuterNorm, rows, rows);
    clear(padding(index));
  }

  std::int32_t place(std::int64_t index) const {
    return static_cast<std::int32_t>(ratio_ * s_.tiles + index);
  }
  // [ratios + 1, tiles * width] as a row a tile.
  View per_tile(View table) const {
    return table.reshape(table.rows() * s_.tiles, table.cols() / s_.tiles);
  }

  void add_tile_embedding(const MllamaTower::TileEmbedding& embedding, std::int64_t index,
                          View rows) {
    if (rows.rows() == 0) return;
    stream_.embed({.table = per_tile(embedding.table.view),
                   .ids = stream_.upload(std::vector<std::int32_t>{place(index)}),
                   .scale = embedding.gate,
                   .out = tower_.row_});
    stream_.add(tower_.row_, rows, 1);
  }

  void add_positions(std::int64_t index, View rows) {
    const View room = tower_.normed_.row_range(0, s_.rows());
    stream_.embed({.table = tower_.positions_.view,
                   .ids = stream_.upload(counting(0, s_.rows())),
                   .scale = 1 - tower_.position_gate_,
                   .out = room});
    stream_.add(room, rows, 1);
    const View table = tower_.tile_positions_.view;
    const std::int64_t places = table.rows() * s_.tiles * s_.rows();
    stream_.embed({.table = table.reshape(places, s_.width),
                   .ids = stream_.upload(counting(place(index) * s_.rows(), s_.rows())),
                   .scale = tower_.position_gate_,
                   .out = room});
    stream_.add(room, rows, 1);
  }

  void clear(View rows) {
    if (rows.rows() == 0) return;
    const std::vector<std::int32_t> any(static_cast<std::size_t>(rows.rows()), 0);
    stream_.embed(
        {.table = tower_.positions_.view, .ids = stream_.upload(any), .scale = 0, .out = rows});
  }

  void layer(WorkList& works, std::size_t index) override {
    const auto first = static_cast<std::size_t>(s_.layers);
    if (index == first) works.once([this] { begin_global(); });
    const MllamaTower::Block& block = tower_.blocks_[index];
    attention(works, block);
    mlp(works, block);
    works.once([this, index, first] {
      if (index < first) take_features(static_cast<std::int64_t>(index));
      if (tap_) show(tap_, stream_, fmt::format("vision.layer.{}", index), own(hidden_));
    });
  }

  void begin_global() {
    apply_norm(stream_, tower_.last_norm_, kOuterNorm, hidden_, hidden_);
    for (std::int64_t index = 0; index < s_.tiles; ++index) {
      add_tile_embedding(tower_.after_, index, tile(index));
      add_tile_embedding(tower_.after_, index, padding(index));
    }
  }

  // x += gate * attention(norm(x))
  void attention(WorkList& works, const MllamaTower::Block& block) {
    const std::int64_t width = s_.width;
    const std::int64_t all = hidden_.rows();
    works.add({.units = all,
               .unit_cost = row_cost(block.layer.qkv),
               .run = [this, &block](std::int64_t begin, std::int64_t end) {
                 const View normed = tower_.normed_.row_range(begin, end);
                 apply_norm(stream_, block.layer.attention_norm, s_.norm,
                            hidden_.row_range(begin, end), normed);
                 apply_linear(stream_, block.layer.qkv, normed, tower_.qkv_.row_range(begin, end));
               }});
    const KvLayer keys = {.blocks = tower_.keys_,
                          .block_size = kKeyBlock,
                          .kv_heads = s_.heads,
                          .head_dim = s_.head_dim()};
    works.add({.units = 1,
               .unit_cost = 2 * kNumberCost * static_cast<double>(all * width),
               .run = [this, keys, width](std::int64_t, std::int64_t) {
                 stream_.kv_write({.plan = written_,
                                   .k = tower_.qkv_.col_range(width, 2 * width),
                                   .v = tower_.qkv_.col_range(2 * width, 3 * width),
                                   .layer = keys});
               }});
    works.add({.units = std::ssize(some_see_),
               .unit_cost = 2.0 * kQueryRows * static_cast<double>(all * width),
               .run =
                   [this, keys, all](std::int64_t begin, std::int64_t end) {
                     if (begin == 0 && end == std::ssize(some_see_)) {
                       attend(*seen_, keys, 0, all);
                       return;
                     }
                     for (std::int64_t row = begin * kQueryRows;
                          row < std::min(end * kQueryRows, all); row += kQueryRows) {
                       const std::int64_t last = std::min(row + kQueryRows, all);
                       attend(some_see(row, last), keys, row, last);
                     }
                   },
               .kind = WorkKind::kAttention});
    works.add({.units = all,
               .unit_cost = row_cost(block.layer.attention_out),
               .run = [this, &block](std::int64_t begin, std::int64_t end) {
                 const View normed = tower_.normed_.row_range(begin, end);
                 apply_linear(stream_, block.layer.attention_out,
                              tower_.mixed_.row_range(begin, end), normed);
                 stream_.add(normed, hidden_.row_range(begin, end), block.attention_gate);
               }});
  }

  void attend(const AttentionPlan& plan, const KvLayer& keys, std::int64_t begin,
              std::int64_t end) {
    stream_.paged_attention(
        {.plan = &plan,
         .q = tower_.qkv_.row_range(begin, end).col_range(0, s_.width),
         .layer = keys,
         .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s_.head_dim()))),
         .softcap = 0,
         .compute = tower_.compute_,
         .out = tower_.mixed_.row_range(begin, end)});
  }

  // x += gate * mlp(norm(x))
  void mlp(WorkList& works, const MllamaTower::Block& block) {
    works.add({.units = hidden_.rows(),
               .unit_cost = row_cost(block.layer.mlp_in) + row_cost(block.layer.mlp_out),
               .run = [this, &block](std::int64_t begin, std::int64_t end) {
                 for (; begin < end; begin += kMlpRows) {
                   const View x = hidden_.row_range(begin, std::min(begin + kMlpRows, end));
                   const View normed = tower_.normed_.row_range(0, x.rows());
                   const View inner = tower_.mlp_.row_range(0, x.rows());
                   apply_norm(stream_, block.layer.mlp_norm, s_.norm, x, normed);
                   apply_mlp(stream_, block.layer.mlp_in, block.layer.mlp_out, s_.activation,
                             {normed, inner, normed});
                   stream_.add(normed, x, block.mlp_gate);
                 }
               }});
  }

  void take_features(std::int64_t layer) {
    for (std::size_t i = 0; i < s_.inner_layers.size(); ++i) {
      const auto begin = static_cast<std::int64_t>(i + 1) * s_.width;
      if (s_.inner_layers[i] == layer)
        stream_.copy(own(hidden_), own(tower_.features_).col_range(begin, begin + s_.width));
    }
  }

  void project(WorkList& works) override {
    works.once(
        [this] { stream_.copy(own(hidden_), own(tower_.features_).col_range(0, s_.width)); });
    works.add({.units = own_rows(),
               .unit_cost = row_cost(tower_.projector_),
               .run = [this, out = out_[image_]](std::int64_t begin, std::int64_t end) {
                 for (; begin < end; begin += kMlpRows) {
                   const std::int64_t last = std::min(begin + kMlpRows, end);
                   const View projected = tower_.projected_.row_range(0, last - begin);
                   apply_linear(stream_, tower_.projector_, tower_.features_.row_range(begin, last),
                                projected);
                   stream_.copy(projected, out.row_range(begin, last));
                   show(tap_, stream_, "vision.merged", projected);
                 }
               }});
    ++image_;
  }

  const MllamaTower& tower_;
  const MllamaTowerSettings& s_;
  std::vector<std::int32_t> blocks_;
  const AttentionPlan* written_ = nullptr;  // of the image that is being encoded
  const AttentionPlan* seen_ = nullptr;
  std::vector<const AttentionPlan*> some_see_;  // of kQueryRows rows each, where they are cut
  std::int64_t tiles_ = 0;                      // of the image
  std::int64_t ratio_ = 0;
  std::size_t image_ = 0;
};

std::unique_ptr<EncodeRun> MllamaTower::begin(const EncodeArgs& args) {
  return std::make_unique<MllamaEncodeRun>(args, *this);
}

}  // namespace

std::unique_ptr<VisionTower> make_mllama_tower(MllamaTowerSettings settings) {
  return std::make_unique<MllamaTower>(std::move(settings));
}

}  // namespace saccade
