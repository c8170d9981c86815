#include "model/towers/pixtral_tower.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/towers/tower_weights.h"

namespace saccade {
Result<void> check_pixtral_tower(const PixtralTowerSettings& s) {
  // Pairs of a head take turns with a patch's row and its column.
  if (s.channels != 3 || s.embed % s.heads != 0 || s.head_dim() % 4 != 0)
    return fail(ErrorCode::kUnsupported, "vision_config: {} channels, width {} in {} heads",
                s.channels, s.embed, s.heads);
  return {};
}

void PixtralTower::add_weights(WeightTable& table) {
  const PixtralTowerSettings& s = settings_;
  const std::string tower = "vision_tower.";
  const std::string projector = "multi_modal_projector.";
  stack_.blocks.resize(static_cast<std::size_t>(s.depth));
  table.patches(patch_embed_, tower + "patch_conv", {s.embed, s.channels, s.patch, s.patch},
                Bias::kNo);
  add_norm(table, first_norm_, tower + "ln_pre", s.embed, s.norm);
  for (std::size_t i = 0; i < stack_.blocks.size(); ++i) {
    VisionBlock& block = stack_.blocks[i];
    const std::string at = fmt::format("{}transformer.layers.{}.", tower, i);
    add_norm(table, block.attention_norm, at + "attention_norm", s.embed, s.norm);
    table.stacked(block.qkv,
                  {{at + "attention.q_proj", s.embed},
                   {at + "attention.k_proj", s.embed},
                   {at + "attention.v_proj", s.embed}},
                  s.embed, Bias::kNo, MatrixRole::kTowerLayer);
    table.linear(block.attention_out, at + "attention.o_proj", s.embed, s.embed, Bias::kNo,
                 MatrixRole::kTowerLayer);
    add_norm(table, block.mlp_norm, at + "ffn_norm", s.embed, s.norm);
    table.stacked(
        block.mlp_in,
        {{at + "feed_forward.gate_proj", s.inner}, {at + "feed_forward.up_proj", s.inner}}, s.embed,
        Bias::kNo, MatrixRole::kTowerLayer);
    table.linear(block.mlp_out, at + "feed_forward.down_proj", s.embed, s.inner, Bias::kNo,
                 MatrixRole::kTowerLayer);
  }
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

class PixtralEncodeRun final : public TowerRun {
 public:
  PixtralEncodeRun(Stream& stream, const PixtralTower& tower,
                   std::span<const PreparedImage* const> images, std::span<const View> out, Tap tap)
      : TowerRun(stream, images, out, std::move(tap), tower.stack_.blocks.size()),
        tower_(tower),
        settings_(tower.settings_),
        order_(order_patches(images, settings_.merge, 0)),
        angles_{tower.angles_.cos(order_.patches()), tower.angles_.sin(order_.patches())},
        images_apart_(stream_.plan_segments(order_.frame_begins, tower.stack_.geometry())) {
    take_rows(tower_.hidden_, order_.patches());
    for (const PreparedImage* image : images_) tokens_.add(image->layout.tokens);
  }

 private:
  void embed(WorkList& works) override {
    list_patches(works, stream_, images_, tower_.patch_embed_, tower_.cut_, hidden_);
    list_norm(works, stream_, tower_.first_norm_, settings_.norm, hidden_);
    tower_.angles_.list(works, stream_, order_);
    show_rows(works, "vision.patch_embed");
  }

  void layer(WorkList& works, std::size_t index) override {
    tower_.stack_.block(works, stream_, index, images_apart_, angles_, hidden_);
    show_rows(works, fmt::format("vision.layer.{}", index));
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
    const std::int64_t square = settings_.merge * settings_.merge;
    works.add({.units = tokens_.all(),
               .unit_cost = (settings_.merges ? row_cost(tower_.merge_) : 0) +
                            row_cost(tower_.project_in_) + row_cost(tower_.project_out_),
               .run = [this, square](std::int64_t begin, std::int64_t end) {
                 tokens_.each(begin, end, std::max(kMlpRows / square, std::int64_t{1}),
                              [&](std::size_t i, std::int64_t from, std::int64_t to) {
                                project_some(i, from, to);
                              });
               }});
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
  PatchOrder order_;
  VisionAngles angles_;
  const SegmentPlan& images_apart_;
  ImageUnits tokens_;
};

std::unique_ptr<EncodeRun> PixtralTower::begin(Stream& stream,
                                               std::span<const PreparedImage* const> images,
                                               std::span<const View> out, const Tap& tap) {
  return std::make_unique<PixtralEncodeRun>(stream, *this, images, out, tap);
}

}  // namespace saccade
