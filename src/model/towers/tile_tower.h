// A vision transformer over square tiles with learnt positions (ViT, arXiv:2010.11929): SigLIP,
// CLIP and their like. What becomes of the features of an image's tiles is each family's own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "image/normalize.h"
#include "image/patchify.h"
#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/images/square_cutter.h"
#include "model/towers/stack_tower.h"

namespace saccade {

// Of a tile: as many pixels and patches a side.
struct TileTowerSettings : VitExtents {
  NormStyle norm = {.epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};
  NormStyle qk_norm = {};  // of blocks that have one
  Activation activation = Activation::kGeluTanh;
  bool patch_bias = true;
  bool class_token = false;  // a learnt row before each tile's; project() does not see it
  bool pre_norm = false;     // CLIP: patches and positions are normed before the first layer
  bool post_norm = true;     // features are normed at the end; else the weights are there, unused
  // How many layers have run where features are taken, of each take; they stand side by side,
  // without a norm. Empty: after the last. Not with a class token.
  std::vector<std::int64_t> feature_layers;
  // The row of learnt positions that each row of a tile takes. Empty: its own.
  std::vector<std::int32_t> position_rows;
  // In the checkpoint, after those that run: features of an inner layer.
  std::int64_t unread_layers = 0;
  std::string prefix = "vision_tower.vision_model.";

  std::int64_t feature_width() const {
    return width * std::max<std::int64_t>(std::ssize(feature_layers), 1);
  }
  std::int64_t side() const { return image / patch; }       // patches a side of a tile
  std::int64_t patches() const { return side() * side(); }  // of a tile
  std::int64_t rows() const { return patches() + (class_token ? 1 : 0); }  // of a tile in the tower
};

struct TileTowerWeights {
  Linear patch_embed;
  VectorWeight class_token;  // [1, width] with class_token
  EmbeddingTable positions;  // [rows, width]
  Norm pre_norm;
  Norm post_norm;
};

// vision_config of a siglip_vision_model over the defaults of its class. kUnsupported names what
// cannot be honoured.
Result<TileTowerSettings> parse_siglip(const json::object& config);

// Current transformers' names to the hub's, of checkpoints with such a tower and a text beside it;
// in between, the tower lost and kept a level. The head's is each family's own.
constexpr std::array<NameAlias, 8> siglip_aliases(const NameAlias& head) {
  return {NameAlias{"vision_tower.vision_model.", "vision_tower.vision_model."},
          {"vision_tower.", "vision_tower.vision_model."},
          {"model.language_model.", "language_model.model."},
          head,
          {"model.vision_tower.vision_model.", "vision_tower.vision_model."},
          {"model.vision_tower.", "vision_tower.vision_model."},
          {"model.multi_modal_projector.", "multi_modal_projector."},
          {"model.image_newline", "image_newline"}};
}

// Rows of patches, [3, patch, patch] each, of tiles that stand below each other. What a side leaves
// over its whole patches is dropped, as the convolution does.
class TileRows final : public SquareCutter {
 public:
  TileRows(const TileTowerSettings& tower, const NormalizeTable& normalize);
  PatchPlace place(const Pixels& pixels, std::int64_t row) const override;

 private:
  std::int64_t tile_;  // pixels a side
  std::int64_t side_;  // patches a side
};

// A layout's grid is tiles x side x side. Taps: vision.patch_embed (positions added, normed with
// pre_norm), vision.layer.N, and what project() adds.
class TileTower : public StackTower {
 public:
  explicit TileTower(TileTowerSettings settings)
      : StackTower({.embed = settings.width,
                    .heads = settings.heads,
                    .norm = settings.norm,
                    .qk_norm = settings.qk_norm,
                    .activation = settings.activation}),
        settings_(std::move(settings)) {}

  void add_weights(WeightTable& table) override;
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::unique_ptr<EncodeRun> begin(const EncodeArgs& args) override;

 protected:
  // Everything before the projector: `blocks` are those that run. SigLIP's and CLIP's names, unless
  // a family has others.
  virtual void add_tower(WeightTable& table, TileTowerWeights& weights,
                         std::vector<VisionBlock>& blocks) const;
  virtual void add_projector(WeightTable& table) = 0;
  virtual void add_projector_scratch(Scratch& scratch, DType type, std::int64_t patch_rows) = 0;
  // Lists what makes `out`, [layout.tokens, text width] of any dtype, of `features`, [tiles *
  // patches, feature_width()] of one image. What is referred to lives as long as the run.
  virtual void project(WorkList& works, Stream& stream, const ImageLayout& layout, View features,
                       View out, const Tap& tap) const = 0;

  const TileTowerSettings& settings() const { return settings_; }

 private:
  friend class TileEncodeRun;

  TileTowerSettings settings_;
  TileTowerWeights weights_;
  // The stack has room for some tiles: a tile attends to itself alone. Patches are cut a tile at a
  // time.
  View position_rows_;  // [rows of a tile, width]
  View features_;       // [rows of a run, feature_width()] with feature_layers
};

}  // namespace saccade
