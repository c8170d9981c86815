#include "model/towers/glm4v_tower.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/blocks/scratch.h"
#include "model/towers/tower_weights.h"
#include "model/towers/whole_images.h"

namespace saccade {
namespace {

// torch's LayerNorm, whatever the configuration says of the other norms.
constexpr NormStyle kMergerNorm = {.epsilon = 1e-5f, .weight_offset = 0, .subtract_mean = true};

// Merged rows that are made at a time.
std::int64_t mlp_slice(const Glm4vTowerSettings& s) {
  return std::max(kMlpRows / (s.merge * s.merge), std::int64_t{1});
}

class Glm4vTower final : public WholeImageTower {
 public:
  explicit Glm4vTower(const Glm4vTowerSettings& settings)
      : WholeImageTower(settings), settings_(settings) {}

  void add_weights(WeightTable& table) override;
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::unique_ptr<EncodeRun> begin(const EncodeArgs& args) override;

 private:
  friend class Glm4vEncodeRun;

  Glm4vTowerSettings settings_;
  Linear patch_embed_;
  Norm first_norm_;
  PositionRows positions_;  // [settings_.positions^2, embed]
  Norm last_norm_;
  Linear downsample_;
  Linear project_;
  Norm project_norm_;
  Linear merger_in_;  // gate and up
  Linear merger_out_;

  View joined_;     // [squares of a slice, out]
  View projected_;  // [squares of a slice, out]
  View ones_;       // [squares of a slice, out], what an activation alone is multiplied by
  View inner_;      // [squares of a slice, 2 * merger_inner]
};

void Glm4vTower::add_weights(WeightTable& table) {
  const Glm4vTowerSettings& s = settings_;
  const std::string tower = "model.visual.";
  table.patches(patch_embed_, tower + "patch_embed.proj",
                {s.embed, s.channels, s.frames, s.patch, s.patch}, Bias::kYes);
  add_norm(table, first_norm_, tower + "post_conv_layernorm", s.embed, s.norm);
  add_position_rows(table, positions_, tower + "embeddings.position_embedding.weight",
                    s.positions * s.positions, s.embed);
  add_vision_blocks(
      table, stack_.blocks, s.depth, tower + "blocks.",
      {"norm1",
       {"attn.qkv"},
       "attn.proj",
       "norm2",
       {"mlp.gate_proj", "mlp.up_proj"},
       "mlp.down_proj"},
      {s.embed, s.out, s.norm, s.qkv_bias ? Bias::kYes : Bias::kNo, Bias::kNo, Bias::kNo});
  add_norm(table, last_norm_, tower + "post_layernorm", s.embed, s.norm);
  add_joining(table, downsample_, tower + "downsample", {s.out, s.embed, s.merge, s.merge},
              s.merge * s.merge);
  table.bias(downsample_.bias, tower + "downsample.bias", s.out);
  const std::string merger = tower + "merger.";
  table.linear(project_, merger + "proj", s.out, s.out, Bias::kNo);
  add_norm(table, project_norm_, merger + "post_projection_norm", s.out, kMergerNorm);
  table.stacked(merger_in_,
                {{merger + "gate_proj", s.merger_inner}, {merger + "up_proj", s.merger_inner}},
                s.out, Bias::kNo);
  table.linear(merger_out_, merger + "down_proj", s.out, s.merger_inner, Bias::kNo);
}

Result<void> Glm4vTower::reserve(Device& device, std::int64_t patch_rows) {
  const Glm4vTowerSettings& s = settings_;
  const DType type = device.activation_dtype();
  const std::int64_t slice = std::min(patch_rows, kMlpRows);
  const std::int64_t squares = std::min(patch_rows, mlp_slice(s));
  angles_.add(memory_, patch_rows, s.head_dim());
  cut_.add(memory_, type, slice, s.patch_values());
  memory_.add(hidden_, type, patch_rows, s.embed);
  stack_.add_scratch(memory_, type, patch_rows, 2 * s.out);
  memory_.add(joined_, type, squares, s.out);
  memory_.add(projected_, type, squares, s.out);
  memory_.add(ones_, type, squares, s.out);
  memory_.add(inner_, type, squares, 2 * s.merger_inner);
  TRY_DO(memory_.allocate(device));
  angles_.fill(device, s.rope_theta);
  std::vector<float> ones(static_cast<std::size_t>(squares * s.out), 1.0f);
  Stream& copy = device.lane(Lane::kCopy);
  copy.upload(View(ones.data(), DType::kF32, squares, s.out), ones_);
  copy.synchronize();
  return {};
}

class Glm4vEncodeRun final : public WholeImageRun {
 public:
  Glm4vEncodeRun(const EncodeArgs& args, const Glm4vTower& tower)
      : WholeImageRun(args, tower, tower.settings_.merge),
        tower_(tower),
        settings_(tower.settings_) {}

 private:
  void embed(WorkList& works) override {
    list_patches(works, stream_, images_, tower_.patch_embed_, tower_.cut_, hidden_);
    list_norm(works, stream_, tower_.first_norm_, settings_.norm, hidden_);
    // The learnt square stretched over each image's patches.
    list_positions(works, stream_, {images_, order_},
                   {&tower_.positions_, settings_.positions, 16, add_bicubic_taps},
                   tower_.stack_.room(hidden_.rows()), hidden_);
    tower_.angles_.list(works, stream_, order_);
    show_rows(works, "vision.patch_embed");
  }

  void project(WorkList& works) override {
    tokens_.list(works,
                 row_cost(tower_.downsample_) + row_cost(tower_.project_) +
                     row_cost(tower_.merger_in_) + row_cost(tower_.merger_out_),
                 mlp_slice(settings_),
                 [this](std::size_t image, std::int64_t begin, std::int64_t end) {
                   merge(image, begin, end);
                 });
  }

  // down(act(gate(x)) * up(x)) of x = gelu(norm(project(a square's patches joined))), of tokens
  // [begin, end) of an image.
  void merge(std::size_t image, std::int64_t begin, std::int64_t end) {
    const Glm4vTowerSettings& s = settings_;
    const std::int64_t square = s.merge * s.merge;
    const std::int64_t count = end - begin;
    const std::int64_t row = (tokens_.begin(image) + begin) * square;
    const View part = hidden_.row_range(row, row + count * square);
    const View normed = tower_.stack_.normed(count * square);
    const View joined = tower_.joined_.row_range(0, count);
    const View projected = tower_.projected_.row_range(0, count);
    apply_norm(stream_, tower_.last_norm_, s.norm, part, normed);
    apply_linear(stream_, tower_.downsample_, normed.reshape(count, s.merged()), joined);
    apply_linear(stream_, tower_.project_, joined, projected);
    apply_norm(stream_, tower_.project_norm_, kMergerNorm, projected, projected);
    stream_.gated({.gate = projected,
                   .up = tower_.ones_.row_range(0, count),
                   .activation = Activation::kGeluErf,
                   .out = projected});
    apply_mlp(stream_, tower_.merger_in_, tower_.merger_out_, s.activation,
              {projected, tower_.inner_.row_range(0, count), joined});
    stream_.copy(joined, out_[image].row_range(begin, end));
    show(tap_, stream_, "vision.merged", joined);
  }

  const Glm4vTower& tower_;
  const Glm4vTowerSettings& settings_;
};

std::unique_ptr<EncodeRun> Glm4vTower::begin(const EncodeArgs& args) {
  return std::make_unique<Glm4vEncodeRun>(args, *this);
}

}  // namespace

Result<void> check_glm4v_tower(const Glm4vTowerSettings& s) {
  // A quarter of a head turns by a patch's row, twice, and as much by its column.
  if (s.channels != 3 || s.embed % s.heads != 0 || s.head_dim() % 4 != 0)
    return fail(ErrorCode::kUnsupported, "vision_config: {} channels, width {} in {} heads",
                s.channels, s.embed, s.heads);
  return {};
}

std::unique_ptr<VisionTower> make_glm4v_tower(const Glm4vTowerSettings& settings) {
  return std::make_unique<Glm4vTower>(settings);
}

}  // namespace saccade
