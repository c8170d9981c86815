// The vision transformer of Llama 3.2 Vision: an image's tiles attend to each other. Places inside
// a tile, the tile's place and the arrangement of tiles all have learnt embeddings behind gates; a
// second, gated transformer follows the first; and an embedding row is made of what both end with
// and of inner layers' rows beside each other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/blocks/blocks.h"
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
std::unique_ptr<VisionTower> make_mllama_tower(MllamaTowerSettings settings);

}  // namespace saccade
