// A vision transformer over images cut into patches at nearly their own size, every merge x merge
// of them joined to one embedding row (Qwen2-VL, arXiv:2409.12191; with windows Qwen2.5-VL,
// arXiv:2502.13923; with learnt positions and DeepStack Qwen3-VL, arXiv:2511.21631).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/towers/tower_weights.h"
#include "model/towers/vision_tower.h"

namespace saccade {

// Tensor names: of the whole tower, below its blocks, and below a merger.
struct PatchTowerNames {
  std::string tower = "visual.";
  std::string mlp_in = "mlp.fc1";  // of an MLP that is not gated
  std::string mlp_out = "mlp.fc2";
  std::string merger_norm = "ln_q";
  std::string merger_in = "mlp.0";
  std::string merger_out = "mlp.2";
};

struct PatchTowerSettings {
  std::int64_t depth = 32;
  std::int64_t embed = 1280;
  std::int64_t heads = 16;
  std::int64_t inner = 5120;  // of the MLP
  std::int64_t channels = 3;
  std::int64_t patch = 14;
  std::int64_t merge = 2;
  std::int64_t frames = 2;  // of one patch
  bool patch_bias = false;
  // Side of a square of learnt positions, which is stretched over each image's patches; 0: none.
  std::int64_t positions = 0;
  double rope_theta = 10000;
  NormStyle norm;
  bool gated = false;  // the MLP: gate_proj, up_proj, down_proj instead of fc1, fc2
  Activation activation = Activation::kQuickGelu;
  // Merged rows a side of an attention window; 0: every layer sees the whole frame.
  std::int64_t window = 0;
  // With a window: layers that see the whole frame. Numbers that no layer has mean nothing.
  std::vector<std::int64_t> whole_layers;
  std::int64_t out = 0;  // width of a merger's rows
  // Layers after which a merger of its own makes one more slice of the embedding row, ascending
  // (DeepStack, arXiv:2406.04334). These norm a square's patches together, the last merger each
  // patch alone.
  std::vector<std::int64_t> deepstack;
  PatchTowerNames names;

  std::int64_t head_dim() const { return embed / heads; }
  std::int64_t merged() const { return embed * merge * merge; }
  std::int64_t patch_values() const { return channels * frames * patch * patch; }
};

// A list of layers in vision_config, `fallback` where it is not said.
Result<std::vector<std::int64_t>> vision_layers(const json::object& vision, std::string_view name,
                                                std::vector<std::int64_t> fallback);
// rope_parameters.rope_theta of vision_config, 10,000 where it is not said.
Result<double> vision_rope_theta(const json::object& vision);
// kUnsupported for extents that do not fit each other.
Result<void> check_patch_tower(const PatchTowerSettings& settings);

// Where the rows of a run stand. Patch rows of an image are in merge order; with windows the merged
// squares are put in the order of their windows, row by row, cut windows at the right and the
// bottom.
struct PatchOrder {
  std::vector<std::int32_t> rows;           // of each patch in the order of computation
  std::vector<std::int32_t> columns;        //
  std::vector<std::int32_t> frame_begins;   // segments of whole-frame attention
  std::vector<std::int32_t> window_begins;  // and of windowed; empty without windows
  // Which merged row of the run stands at each place; empty without windows.
  std::vector<std::int32_t> squares;
};
PatchOrder order_patches(std::span<const PreparedImage* const> images, std::int64_t merge,
                         std::int64_t window);

// Angles of a tower's heads, both halves of which turn alike: the first quarter by the patch's row,
// the next by its column.
class PatchAngles {
 public:
  // What they need, before memory.allocate(). head_dim is a multiple of four.
  void add(Scratch& memory, std::int64_t patch_rows, std::int64_t head_dim);
  void fill(Device& device, double theta) const;  // after it
  // Of the patches of `order`; then cos() and sin() have them.
  void turn(Stream& stream, const PatchOrder& order) const;
  View cos(std::int64_t rows) const { return cos_.row_range(0, rows); }
  View sin(std::int64_t rows) const { return sin_.row_range(0, rows); }

 private:
  std::int64_t head_dim_ = 0;
  View inv_freq_;  // [1, head_dim / 2]
  View axis_;      // [1, head_dim / 2] u8
  View cos_;       // [patch rows, head_dim / 2]
  View sin_;
};

// Taps: vision.patch_embed (with learnt positions, where there are), vision.layer.N,
// vision.deepstack.N, vision.merged; with windows their rows go by window.
class PatchTower final : public VisionTower {
 public:
  explicit PatchTower(PatchTowerSettings settings) : settings_(std::move(settings)) {}

  void add_weights(WeightTable& table) override;
  void set_compute(DType compute) override { compute_ = compute; }
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::size_t scratch_bytes() const override { return memory_.bytes(); }
  std::unique_ptr<EncodeRun> begin(Stream& stream, std::span<const PreparedImage* const> images,
                                   std::span<const View> out, const Tap& tap) override;

 private:
  friend class PatchEncodeRun;

  struct Merger {
    Norm norm;
    Linear in;
    Linear out;
  };

  PatchTowerSettings settings_;
  DType compute_ = DType::kF32;
  Linear patch_embed_;
  PositionRows positions_;  // [settings_.positions^2, embed]
  std::vector<VisionBlock> blocks_;
  Merger merger_;
  std::vector<Merger> deepstack_;

  Scratch memory_;
  PatchAngles angles_;
  VisionScratch scratch_;
  View patches_;  // [kMlpRows, patch values]
  // The same as floats on the host: all that exists of pixels as floats. One run at a time has it.
  mutable std::vector<float> cut_;
  View hidden_;  // [patches of a run, embed]
  View merged_;  // [kMlpRows / merge^2, out]
};

// The rows of all images, cut, through `linear` to rows of `out` in the same order, a slice of
// `patches`' rows at a time. `cut` has as many floats as `patches`.
void embed_rows(Stream& stream, std::span<const PreparedImage* const> images, const Linear& linear,
                std::span<float> cut, View patches, View out);

}  // namespace saccade
