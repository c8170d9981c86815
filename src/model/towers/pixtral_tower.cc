#include "model/towers/pixtral_tower.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/blocks/scratch.h"
#include "model/towers/tower_weights.h"
#include "model/towers/whole_images.h"

namespace saccade {
namespace {

class PixtralTower final : public WholeImageTower {
 public:
  explicit PixtralTower(const PixtralTowerSettings& settings)
      : WholeImageTower(settings), settings_(settings) {}

  void add_weights(WeightTable& table) override;
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::unique_ptr<EncodeRun> begin(const EncodeArgs& args) override;

 private:
  friend class PixtralEncodeRun;

  PixtralTowerSettings settings_;
  Linear patch_embed_;
  Norm first_norm_;
  Norm merge_norm_;  // these two with settings_.merges
  Linear merge_;
  Linear project_in_;
  Linear project_out_;

  View joined_;     // [kMlpRows / merge^2, embed] with settings_.merges
  View inner_;      // [kMlpRows / merge^2, out]
  View projected_;  // [kMlpRows / merge^2, out]
};

void PixtralTower::add_weights(WeightTable& table) {
  const PixtralTowerSettings& s = settings_;
  const std::string tower = "vision_tower.";
  const std::string projector = "multi_modal_projector.";
  table.patches(patch_embed_, tower + "patch_conv", {s.embed, s.channels, s.patch, s.patch},
                Bias::kNo);
  add_norm(table, first_norm_, tower + "ln_pre", s.embed, s.norm);
  add_vision_blocks(table, stack_.blocks, s.depth, tower + "transformer.layers.",
                    {"attention_norm",
                     {"attention.q_proj", "attention.k_proj", "attention.v_proj"},
                     "attention.o_proj",
                     "ffn_norm",
                     {"feed_forward.gate_proj", "feed_forward.up_proj"},
                     "feed_forward.down_proj"},
                    {s.embed, s.inner, s.norm, Bias::kNo, Bias::kNo, Bias::kNo});
  if (s.merges) {
    add_norm(table, merge_norm_, projector + "norm", s.embed, s.merge_norm);
    const std::int64_t square = s.merge * s.merge;
    add_joining(table, merge_, projector + "patch_merger.merging_layer",
                {s.embed, s.embed * square}, square);
  }
  const Bias bias = s.projector_bias ? Bias::kYes : Bias::kNo;
  table.linear(project_in_, projector + "linear_1", s.out, s.embed, bias);
  table.linear(project_out_, projector + "linear_2", s.out, s.out, bias);
}

Result<void> PixtralTower::reserve(Device& device, std::int64_t patch_rows) {
  const PixtralTowerSettings& s = settings_;
  const DType type = device.activation_dtype();
  const std::int64_t slice = std::min(patch_rows, kMlpRows);
  angles_.add(memory_, patch_rows, s.head_dim());
  cut_.add(memory_, type, slice, s.patch_values());
  memory_.add(hidden_, type, patch_rows, s.embed);
  stack_.add_scratch(memory_, type, patch_rows, 2 * s.inner);
  if (s.merges) memory_.add(joined_, type, slice, s.embed);
  memory_.add(inner_, type, slice, s.out);
  memory_.add(projected_, type, slice, s.out);
  TRY_DO(memory_.allocate(device));
  // A head's frequencies take turns: the first, the third and so on turn by the patch's row, the
  // others by its column.
  const std::vector<float> all = rope_frequencies(s.rope_theta, s.head_dim());
  std::vector<float> by_row;
  std::vector<float> by_column;
  for (std::size_t i = 0; i < all.size(); ++i) (i % 2 == 0 ? by_row : by_column).push_back(all[i]);
  angles_.fill(device, by_row, by_column);
  return {};
}

class PixtralEncodeRun final : public WholeImageRun {
 public:
  PixtralEncodeRun(const EncodeArgs& args, const PixtralTower& tower)
      : WholeImageRun(args, tower, tower.settings_.merge),
        tower_(tower),
        settings_(tower.settings_) {}

 private:
  void embed(WorkList& works) override {
    list_patches(works, stream_, images_, tower_.patch_embed_, tower_.cut_, hidden_);
    list_norm(works, stream_, tower_.first_norm_, settings_.norm, hidden_);
    tower_.angles_.list(works, stream_, order_);
    show_rows(works, "vision.patch_embed");
  }

  // Of some whole squares' patches: one row each, as wide as a patch.
  View join(View patches) const {
    if (!settings_.merges) return patches;
    const View normed = tower_.stack_.normed(patches.rows());
    const std::int64_t squares = patches.rows() / (settings_.merge * settings_.merge);
    const View joined = tower_.joined_.row_range(0, squares);
    apply_norm(stream_, tower_.merge_norm_, settings_.merge_norm, patches, normed);
    apply_linear(stream_, tower_.merge_, normed.reshape(squares, settings_.merged()), joined);
    return joined;
  }

  void project(WorkList& works) override {
    tokens_.list(works,
                 (settings_.merges ? row_cost(tower_.merge_) : 0) + row_cost(tower_.project_in_) +
                     row_cost(tower_.project_out_),
                 std::max(kMlpRows / (settings_.merge * settings_.merge), std::int64_t{1}),
                 [this](std::size_t image, std::int64_t begin, std::int64_t end) {
                   project_some(image, begin, end);
                 });
  }

  // Tokens [begin, end) of an image.
  void project_some(std::size_t image, std::int64_t begin, std::int64_t end) {
    const std::int64_t square = settings_.merge * settings_.merge;
    const std::int64_t first = tokens_.begin(image);
    const View inner = tower_.inner_.row_range(0, end - begin);
    const View projected = tower_.projected_.row_range(0, end - begin);
    const View joined = join(hidden_.row_range((first + begin) * square, (first + end) * square));
    apply_linear(stream_, tower_.project_in_, joined, inner, {}, settings_.projector_activation);
    apply_linear(stream_, tower_.project_out_, inner, projected);
    stream_.copy(projected, out_[image].row_range(begin, end));
    show(tap_, stream_, "vision.merged", projected);
  }

  const PixtralTower& tower_;
  const PixtralTowerSettings& settings_;
};

std::unique_ptr<EncodeRun> PixtralTower::begin(const EncodeArgs& args) {
  return std::make_unique<PixtralEncodeRun>(args, *this);
}

}  // namespace

Result<void> check_pixtral_tower(const PixtralTowerSettings& s) {
  // Pairs of a head take turns with a patch's row and its column.
  if (s.channels != 3 || s.embed % s.heads != 0 || s.head_dim() % 4 != 0)
    return fail(ErrorCode::kUnsupported, "vision_config: {} channels, width {} in {} heads",
                s.channels, s.embed, s.heads);
  return {};
}

std::unique_ptr<VisionTower> make_pixtral_tower(const PixtralTowerSettings& settings) {
  return std::make_unique<PixtralTower>(settings);
}

}  // namespace saccade
