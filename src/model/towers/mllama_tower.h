// The vision transformer of Llama 3.2 Vision: an image's tiles attend to each other. Places inside
// a tile, the tile's place and the arrangement of tiles all have learnt embeddings behind gates; a
// second, gated transformer follows the first; and an embedding row is made of what both end with
// and of inner layers' rows beside each other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image/normalize.h"
#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/towers/patch_steps.h"
#include "model/towers/tile_tower.h"
#include "model/towers/vision_tower.h"

namespace saccade {

struct MllamaTowerSettings {
  std::int64_t layers = 32;
  std::int64_t global_layers = 8;
  std::int64_t width = 1280;
  std::int64_t heads = 16;
  std::int64_t inner = 5120;
  std::int64_t image = 560;  // pixels a side of a tile
  std::int64_t patch = 14;
  std::int64_t tiles = 4;   // of every image in the tower: those that it has not are empty ones
  std::int64_t ratios = 8;  // arrangements of tiles that have embeddings, numbered from 1
  std::vector<std::int64_t> inner_layers = {3, 7, 15, 23, 30};  // after which rows are taken
  NormStyle norm = {.epsilon = 1e-5f, .weight_offset = 0, .subtract_mean = true};  // of layers
  Activation activation = Activation::kGeluErf;
  std::int64_t out = 0;  // width of an embedding row

  std::int64_t head_dim() const { return width / heads; }
  std::int64_t side() const { return image / patch; }       // patches a side of a tile
  std::int64_t patches() const { return side() * side(); }  // of a tile
  std::int64_t rows() const { return patches() + 1; }  // of a tile's own, the class token first
  std::int64_t padding() const { return (8 - rows() % 8) % 8; }  // rows that fill up a tile
  std::int64_t all_rows() const { return tiles * (rows() + padding()); }
  std::int64_t features() const {
    return width * (1 + static_cast<std::int64_t>(inner_layers.size()));
  }
};

// A layout's grid is the image's tiles x side x side, its resized size the whole tiles that these
// were cut from. Taps, of an image's own rows: vision.patch_embed (normed), vision.layer.N
// (the gated ones count on), vision.merged. Images are encoded one after the other.
class MllamaTower final : public VisionTower {
 public:
  explicit MllamaTower(MllamaTowerSettings settings) : settings_(std::move(settings)) {}

  void add_weights(WeightTable& table) override;
  void set_compute(DType compute) override { compute_ = compute; }
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::size_t scratch_bytes() const override { return memory_.bytes(); }
  std::unique_ptr<EncodeRun> begin(Stream& stream, std::span<const PreparedImage* const> images,
                                   std::span<const View> out, const Tap& tap) override;

  // Of an arrangement of tiles: its row of the embeddings.
  static std::int64_t ratio_index(std::int64_t across, std::int64_t down, std::int64_t most_tiles);

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

}  // namespace saccade
