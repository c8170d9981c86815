#include "model/towers/tile_tower.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "image/patchify.h"
#include "model/checkpoint/config_section.h"
#include "model/checkpoint/decoder_config.h"

namespace saccade {
namespace {

// Tiles whose attention runs in one call.
std::int64_t tiles_at_once(const TileTowerSettings& settings) {
  return std::max<std::int64_t>(kMlpRows / settings.rows(), 1);
}

}  // namespace

Result<TileTowerSettings> parse_siglip(const json::object& config) {
  TRY(const json::object* vision, config_section(config, "vision_config"));
  TRY(const std::string type, json::get_string_or(*vision, "model_type", "siglip_vision_model"));
  if (type != "siglip_vision_model")
    return fail(ErrorCode::kUnsupported, "vision_config.model_type \"{}\" is not done", type);
  TileTowerSettings tower;
  TRY_DO(read_vit_extents(*vision, "vision_config", tower));
  TRY(const bool head, json::get_bool_or(*vision, "vision_use_head", true));
  if (head) return fail(ErrorCode::kUnsupported, "vision_config.vision_use_head is not done");
  TRY(const double epsilon, json::get_double_or(*vision, "layer_norm_eps", 1e-6));
  tower.norm.epsilon = static_cast<float>(epsilon);
  TRY(const std::string activation,
      json::get_string_or(*vision, "hidden_act", "gelu_pytorch_tanh"));
  TRY(tower.activation, parse_activation(activation));
  return tower;
}

TileRows::TileRows(const TileTowerSettings& tower, const NormalizeTable& normalize)
    : SquareCutter(
          {.patch_size = static_cast<int>(tower.patch), .merge_size = 1, .temporal_patch_size = 1},
          normalize),
      tile_(tower.image),
      side_(tower.side()) {}

PatchPlace TileRows::place(const Pixels& pixels, std::int64_t row) const {
  CHECK(pixels.width == tile_ && pixels.height % tile_ == 0, "{}x{} pixels in tiles of {}",
        pixels.width, pixels.height, tile_);
  const std::int64_t tile = row / (side_ * side_);
  const std::int64_t patch = row % (side_ * side_);
  return {static_cast<std::int32_t>(tile * tile_ + patch / side_ * layout().patch_size),
          static_cast<std::int32_t>(patch % side_ * layout().patch_size)};
}

void TileTower::add_weights(WeightTable& table) {
  add_tower(table, weights_, stack_.blocks);
  add_projector(table);
}

void TileTower::add_tower(WeightTable& table, TileTowerWeights& weights,
                          std::vector<VisionBlock>& blocks) const {
  const TileTowerSettings& s = settings_;
  const VisionBlockShape shape = {s.width, s.inner, s.norm};
  const std::string layers = s.prefix + "encoder.layers.";
  if (s.class_token)
    table.bias(weights.class_token, s.prefix + "embeddings.class_embedding", s.width);
  table.patches(weights.patch_embed, s.prefix + "embeddings.patch_embedding",
                {s.width, 3, s.patch, s.patch}, s.patch_bias ? Bias::kYes : Bias::kNo);
  table.embedding(weights.positions, s.prefix + "embeddings.position_embedding.weight", s.rows(),
                  s.width);
  // The misspelling is the reference's.
  if (s.pre_norm) add_norm(table, weights.pre_norm, s.prefix + "pre_layrnorm", s.width, s.norm);
  add_vision_blocks(table, blocks, s.layers, layers, kSiglipBlockNames, shape);
  WeightTable unread;
  VisionBlock nowhere;
  for (std::int64_t i = s.layers; i < s.layers + s.unread_layers; ++i)
    add_vision_block(unread, nowhere, fmt::format("{}{}.", layers, i), kSiglipBlockNames, shape);
  table.unread(unread.specs());
  add_norm(table, weights.post_norm, s.prefix + "post_layernorm", s.width, s.norm);
}

Result<void> TileTower::reserve(Device& device, std::int64_t patch_rows) {
  const TileTowerSettings& s = settings_;
  const DType type = device.activation_dtype();
  const std::int64_t tiles = std::max<std::int64_t>(patch_rows / s.patches(), 1);
  const std::int64_t at_once = std::min(tiles, tiles_at_once(s)) * s.rows();
  cut_.add(memory_, type, s.patches(), 3 * s.patch * s.patch);
  memory_.add(position_rows_, type, s.rows(), s.width);
  memory_.add(hidden_, type, tiles * s.rows(), s.width);
  if (!s.feature_layers.empty()) memory_.add(features_, type, tiles * s.rows(), s.feature_width());
  stack_.add_scratch(memory_, type, at_once, s.inner, s.patches());
  add_projector_scratch(memory_, type, patch_rows);
  return memory_.allocate(device);
}

class TileEncodeRun final : public TowerRun {
 public:
  TileEncodeRun(const EncodeArgs& args, const TileTower& tower)
      : TowerRun(args, tower.stack_.blocks.size()), tower_(tower), settings_(tower.settings_) {
    for (const PreparedImage* image : images_)
      patches_.add(image->layout.grid_t * settings_.patches());
    take_rows(tower_.hidden_, tiles() * settings_.rows());
    const std::int64_t at_once = std::min(tiles(), tiles_at_once(settings_));
    together_ = &plan(at_once);
    last_ = tiles() % at_once == 0 ? together_ : &plan(tiles() % at_once);
  }

 private:
  std::int64_t tiles() const { return patches_.all() / settings_.patches(); }

  // Each tile attends to itself alone.
  const SegmentPlan& plan(std::int64_t tiles) {
    std::vector<std::int32_t> begins;
    for (std::int64_t tile = 0; tile <= tiles; ++tile)
      begins.push_back(static_cast<std::int32_t>(tile * settings_.rows()));
    return stream_.plan_segments(begins, tower_.stack_.geometry());
  }

  void embed(WorkList& works) override {
    std::vector<std::int32_t> taken = settings_.position_rows;
    if (taken.empty()) {
      taken.resize(static_cast<std::size_t>(settings_.rows()));
      std::iota(taken.begin(), taken.end(), 0);
    }
    works.once([this, taken] {
      stream_.embed({.table = tower_.weights_.positions.view,
                     .ids = stream_.upload(taken),
                     .out = tower_.position_rows_});
    });
    const Linear& linear = tower_.weights_.patch_embed;
    const double pixels = kPixelCost * static_cast<double>(linear.weight->in());
    patches_.list(works, row_cost(linear) + pixels, settings_.patches(),
                  [this](std::size_t image, std::int64_t begin, std::int64_t end) {
                    embed_patches(image, begin, end);
                  });
    if (settings_.pre_norm)
      list_norm(works, stream_, tower_.weights_.pre_norm, settings_.norm, hidden_);
    show_rows(works, "vision.patch_embed");
    take_features(works, 0);
  }

  // Patches [begin, end) of an image, in its tiles.
  void embed_patches(std::size_t image, std::int64_t begin, std::int64_t end) {
    const std::int64_t patches = settings_.patches();
    const std::int64_t before = settings_.rows() - patches;  // the class token
    while (begin < end) {
      const std::int64_t tile = begin / patches;
      const std::int64_t first = begin % patches;
      const std::int64_t last = std::min(end - tile * patches, patches);
      const View rows = tile_rows((patches_.begin(image) / patches) + tile);
      const View some = rows.row_range(before + first, before + last);
      const std::int64_t added = first == 0 ? 0 : before + first;
      if (first == 0 && settings_.class_token)
        stream_.copy(tower_.weights_.class_token.view, rows.row_range(0, 1));
      apply_linear(stream_, tower_.weights_.patch_embed,
                   tower_.cut_.cut(stream_, *images_[image], begin, tile * patches + last), some);
      stream_.add(tower_.position_rows_.row_range(added, before + last),
                  rows.row_range(added, before + last), 1);
      begin = tile * patches + last;
    }
  }
  View tile_rows(std::int64_t tile) const {
    return hidden_.row_range(tile * settings_.rows(), (tile + 1) * settings_.rows());
  }

  void layer(WorkList& works, std::size_t index) override {
    const std::int64_t at_once = together_->rows();
    for (std::int64_t begin = 0; begin < hidden_.rows(); begin += at_once) {
      const View part = hidden_.row_range(begin, std::min(begin + at_once, hidden_.rows()));
      tower_.stack_.block(works, stream_, index, part.rows() == at_once ? *together_ : *last_, {},
                          part);
    }
    show_rows(works, fmt::format("vision.layer.{}", index));
    take_features(works, static_cast<std::int64_t>(index) + 1);
  }

  void take_features(WorkList& works, std::int64_t layers) {
    const std::int64_t width = settings_.width;
    for (std::size_t i = 0; i < settings_.feature_layers.size(); ++i) {
      const auto first = static_cast<std::int64_t>(i) * width;
      if (settings_.feature_layers[i] != layers) continue;
      works.add({.units = hidden_.rows(),
                 .unit_cost = kNumberCost * static_cast<double>(width),
                 .run = [this, first, width](std::int64_t begin, std::int64_t end) {
                   stream_.copy(hidden_.row_range(begin, end),
                                features().row_range(begin, end).col_range(first, first + width));
                 }});
    }
  }

  View features() const {
    return settings_.feature_layers.empty() ? hidden_
                                            : tower_.features_.row_range(0, hidden_.rows());
  }

  // Patches alone, tile after tile.
  void drop_class_tokens(WorkList& works) {
    const std::int64_t patches = settings_.patches();
    works.add({.units = tiles(),
               .unit_cost = 2 * kNumberCost * static_cast<double>(patches * settings_.width),
               .run = [this, patches](std::int64_t begin, std::int64_t end) {
                 const View between = tower_.stack_.normed(patches);
                 for (std::int64_t tile = begin; tile < end; ++tile) {
                   stream_.copy(tile_rows(tile).row_range(1, 1 + patches), between);
                   stream_.copy(between, hidden_.row_range(tile * patches, (tile + 1) * patches));
                 }
               }});
  }

  void project(WorkList& works) override {
    if (settings_.post_norm)
      list_norm(works, stream_, tower_.weights_.post_norm, settings_.norm, hidden_);
    if (settings_.class_token) drop_class_tokens(works);
    for (std::size_t i = 0; i < images_.size(); ++i)
      tower_.project(works, stream_, images_[i]->layout,
                     features().row_range(patches_.begin(i), patches_.begin(i + 1)), out_[i], tap_);
  }

  const TileTower& tower_;
  const TileTowerSettings& settings_;
  ImageUnits patches_;
  const SegmentPlan* together_ = nullptr;  // of as many tiles as attend in one call
  const SegmentPlan* last_ = nullptr;      // of those that are left
};

std::unique_ptr<EncodeRun> TileTower::begin(const EncodeArgs& args) {
  return std::make_unique<TileEncodeRun>(args, *this);
}

}  // namespace saccade
