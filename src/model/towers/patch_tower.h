// A vision transformer over images cut into patches at nearly their own size, every merge x merge
// of them joined to one embedding row (Qwen2-VL, arXiv:2409.12191; with windows Qwen2.5-VL,
// arXiv:2502.13923; with learnt positions and DeepStack Qwen3-VL, arXiv:2511.21631).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/blocks/blocks.h"
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

// Taps: vision.patch_embed (with learnt positions, where there are), vision.layer.N,
// vision.deepstack.N, vision.merged; with windows their rows go by window.
std::unique_ptr<VisionTower> make_patch_tower(PatchTowerSettings settings);

}  // namespace saccade
