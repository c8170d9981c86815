#include "model/towers/pixtral_tower.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model/towers/patch_tower.h"
#include "model/towers/tower_run.h"
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
  blocks_.resize(static_cast<std::size_t>(s.depth));
  table.patches(patch_embed_, tower + "patch_conv", {s.embed, s.channels, s.patch, s.patch},
                Bias::kNo);
  add_norm(table, first_norm_, tower + "ln_pre", s.embed, s.norm);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    VisionBlock& block = blocks_[i];
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
  // A head's frequencies take turns: the first, the third and so on turn by the patch's row, the
  // others by its column. Pairs have those of rows first.
  const std::vector<float> all = rope_frequencies(s.rope_theta, s.head_dim());
  const auto pairs = static_cast<std::int64_t>(all.size());
  std::vector<float> by_pair;
  for (const std::size_t first : {0, 1}) {
    for (std::size_t i = first; i < all.size(); i += 2) by_pair.push_back(all[i]);
  }
  std::vector<std::uint8_t> axes(all.size() / 2, 0);
  axes.resize(all.size(), 1);
  memory_.add(inv_freq_, DType::kF32, 1, pairs);
  memory_.add(axis_, DType::kU8, 1, pairs);
  const std::int64_t slice = std::min(patch_rows, kMlpRows);
  memory_.add(patches_, type, slice, s.patch_values());
  cut_.resize(static_cast<std::size_t>(slice * s.patch_values()));
  memory_.add(hidden_, type, patch_rows, s.embed);
  memory_.add(cos_, DType::kF32, patch_rows, pairs);
  memory_.add(sin_, DType::kF32, patch_rows, pairs);
  memory_.add(scratch_.normed, type, patch_rows, s.embed);
  memory_.add(scratch_.qkv, type, patch_rows, 3 * s.embed);
  memory_.add(scratch_.attention, type, patch_rows, s.embed);
  memory_.add(scratch_.mlp, type, slice, 2 * s.inner);
  if (s.merges) memory_.add(joined_, type, slice, s.embed);
  memory_.add(inner_, type, slice, s.out);
  memory_.add(projected_, type, slice, s.out);
  TRY_DO(memory_.allocate(device));
  Stream& copy = device.lane(Lane::kCopy);
  copy.upload(View(by_pair.data(), DType::kF32, 1, pairs), inv_freq_);
  copy.upload(View(axes.data(), DType::kU8, 1, pairs), axis_);
  copy.synchronize();
  return {};
}

class PixtralEncodeRun final : public TowerRun {
 public:
  PixtralEncodeRun(Stream& stream, const PixtralTower& tower,
                   std::span<const PreparedImage* const> images, std::span<const View> out, Tap tap)
      : TowerRun(stream, images, out, std::move(tap), tower.blocks_.size()),
        tower_(tower),
        settings_(tower.settings_),
        order_(order_patches(images, settings_.merge, 0)),
        attention_({.heads = settings_.heads,
                    .head_dim = settings_.head_dim(),
                    .compute = tower_.compute_}),
        images_apart_(stream_.plan_segments(order_.frame_begins, segment_geometry(attention_))) {
    const std::int64_t rows = order_.frame_begins.back();
    take_rows(tower_.hidden_, rows);
    cos_ = tower_.cos_.row_range(0, rows);
    sin_ = tower_.sin_.row_range(0, rows);
  }

 private:
  void embed() override {
    embed_rows(stream_, images_, tower_.patch_embed_, tower_.cut_, tower_.patches_, hidden_);
    apply_norm(stream_, tower_.first_norm_, settings_.norm, hidden_, hidden_);
    std::vector<std::int32_t> positions = order_.rows;
    positions.insert(positions.end(), order_.columns.begin(), order_.columns.end());
    stream_.rope_table({.positions = stream_.upload(positions),
                        .inv_freq = tower_.inv_freq_,
                        .axis = tower_.axis_,
                        .tables = {},
                        .cos = cos_,
                        .sin = sin_});
    show(tap_, stream_, "vision.patch_embed", hidden_);
  }

  void layer(std::size_t index) override {
    const VisionBlock& block = tower_.blocks_[index];
    vision_attention(stream_, block, settings_.norm, attention_, images_apart_, cos_, sin_,
                     tower_.scratch_, hidden_);
    vision_mlp(stream_, block, settings_.norm, settings_.activation, tower_.scratch_, hidden_);
    if (tap_) show(tap_, stream_, fmt::format("vision.layer.{}", index), hidden_);
  }

  // Of some whole squares' patches: one row each, as wide as a patch.
  View join(View patches) const {
    if (!settings_.merges) return patches;
    const View normed = tower_.scratch_.normed.row_range(0, patches.rows());
    const std::int64_t squares = patches.rows() / (settings_.merge * settings_.merge);
    const View joined = tower_.joined_.row_range(0, squares);
    apply_norm(stream_, tower_.merge_norm_, settings_.merge_norm, patches, normed);
    apply_linear(stream_, tower_.merge_, normed.reshape(squares, settings_.merged()), joined);
    return joined;
  }

  void project() override {
    const std::int64_t square = settings_.merge * settings_.merge;
    const std::int64_t slice = std::max(kMlpRows / square, std::int64_t{1});
    std::int64_t row = 0;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const std::int64_t tokens = images_[i]->layout.tokens;
      for (std::int64_t begin = 0; begin < tokens; begin += slice) {
        const std::int64_t end = std::min(begin + slice, tokens);
        const View inner = tower_.inner_.row_range(0, end - begin);
        const View projected = tower_.projected_.row_range(0, end - begin);
        const View joined = join(hidden_.row_range(row + begin * square, row + end * square));
        apply_linear(stream_, tower_.project_in_, joined, inner, {},
                     settings_.projector_activation);
        apply_linear(stream_, tower_.project_out_, inner, projected);
        stream_.copy(projected, out_[i].row_range(begin, end));
        show(tap_, stream_, "vision.merged", projected);
      }
      row += tokens * square;
    }
  }

  const PixtralTower& tower_;
  const PixtralTowerSettings& settings_;
  PatchOrder order_;
  VisionAttention attention_;
  const SegmentPlan& images_apart_;
  View cos_;
  View sin_;
};

std::unique_ptr<EncodeRun> PixtralTower::begin(Stream& stream,
                                               std::span<const PreparedImage* const> images,
                                               std::span<const View> out, const Tap& tap) {
  return std::make_unique<PixtralEncodeRun>(stream, *this, images, out, tap);
}

}  // namespace saccade
