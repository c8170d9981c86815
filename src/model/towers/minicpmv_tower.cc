#include "model/towers/minicpmv_tower.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "model/images/slice_images.h"
#include "model/towers/position_grid.h"
#include "model/towers/stack_tower.h"
#include "model/towers/tower_weights.h"

namespace saccade {
namespace {

constexpr std::int64_t kJoined = 4;  // patches that become one, twice over
constexpr std::int64_t kJoinedRows = kJoined * kJoined;

// Whatever the configuration says of the other norms.
constexpr NormStyle kMiniCpmvMergerNorm = {
    .epsilon = 1e-6f, .weight_offset = 0, .subtract_mean = true};

// The whole image, or a slice of it.
struct Tile {
  std::int64_t begin = 0;   // its first patch of the run
  std::int64_t height = 0;  // patches
  std::int64_t width = 0;

  std::int64_t rows() const { return height * width; }
};

std::vector<Tile> tiles_of(std::span<const PreparedImage* const> images, std::int64_t patch) {
  std::vector<Tile> tiles;
  std::int64_t begin = 0;
  const auto add = [&](std::int64_t height, std::int64_t width) {
    tiles.push_back({begin, height / patch, width / patch});
    begin += tiles.back().rows();
  };
  for (const PreparedImage* image : images) {
    const ImageLayout& layout = image->layout;
    const std::int64_t end = begin + image->patch_rows();
    add(layout.first_height, layout.first_width);
    for (int slice = 0; slice < layout.slices_across * layout.slices_down; ++slice)
      add(layout.resized_height / layout.slices_down, layout.resized_width / layout.slices_across);
    CHECK(begin == end, "{} patches up to an image's end, {} by its tiles", end, begin);
  }
  return tiles;
}

class MiniCpmvTower final : public StackTower {
 public:
  explicit MiniCpmvTower(const MiniCpmvTowerSettings& settings)
      : StackTower({.embed = settings.width,
                    .heads = settings.heads,
                    .norm = settings.norm,
                    .activation = settings.activation}),
        settings_(settings) {}

  void add_weights(WeightTable& table) override;
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::unique_ptr<EncodeRun> begin(const EncodeArgs& args) override;

 private:
  friend class MiniCpmvEncodeRun;

  MiniCpmvTowerSettings settings_;
  Linear patch_embed_;
  PositionRows positions_;  // [settings_.positions()^2, width]
  VisionBlock window_;      // its attention alone
  Norm window_norm_;        // of four patches together
  Linear window_in_;
  Linear window_out_;
  Norm last_norm_;
  Norm merger_norm_;
  Linear merger_in_;
  Linear merger_out_;

  View inner_;   // [squares of a slice, 4 * inner]
  View joined_;  // [squares of a slice, width]
  View merged_;  // [squares of a slice, out]
};

void MiniCpmvTower::add_weights(WeightTable& table) {
  const MiniCpmvTowerSettings& s = settings_;
  const std::string tower = "model.vision_tower.";
  const VisionBlockShape shape = {s.width, s.inner, s.norm};
  table.patches(patch_embed_, tower + "embeddings.patch_embedding", {s.width, 3, s.patch, s.patch},
                Bias::kYes);
  add_position_rows(table, positions_, tower + "embeddings.position_embedding.weight",
                    s.positions() * s.positions(), s.width);
  add_vision_blocks(table, stack_.blocks, s.layers, tower + "encoder.layers.", kSiglipBlockNames,
                    shape);
  const std::string window = tower + "vit_merger.";
  WeightTable unread;  // of checkpoints that join none
  WeightTable& joining = s.joins() ? table : unread;
  add_vision_attention(joining, window_, window, kSiglipBlockNames, shape);
  add_norm(joining, window_norm_, window + "pre_norm", kJoined * s.width, s.norm);
  joining.linear(window_in_, window + "linear_1", kJoined * s.inner, kJoined * s.width, Bias::kYes);
  joining.linear(window_out_, window + "linear_2", s.width, kJoined * s.inner, Bias::kYes);
  if (!s.joins()) table.unread(unread.specs());
  add_norm(table, last_norm_, tower + "post_layernorm", s.width, s.norm);
  const std::string merger = "model.merger.mlp.0.";
  add_norm(table, merger_norm_, merger + "pre_norm", kJoined * s.width, kMiniCpmvMergerNorm);
  table.linear(merger_in_, merger + "linear_1", kJoined * s.width, kJoined * s.width, Bias::kYes);
  table.linear(merger_out_, merger + "linear_2", s.out, kJoined * s.width, Bias::kYes);
}

Result<void> MiniCpmvTower::reserve(Device& device, std::int64_t patch_rows) {
  const MiniCpmvTowerSettings& s = settings_;
  const DType type = device.activation_dtype();
  const std::int64_t tile = std::min(patch_rows, s.max_squares * kJoinedRows);
  const std::int64_t slice = std::min(patch_rows, kMlpRows);
  const std::int64_t squares = std::max(slice / kJoined, std::int64_t{1});
  cut_.add(memory_, type, slice, s.patch_values());
  memory_.add(hidden_, type, patch_rows, s.width);
  stack_.add_scratch(memory_, type, tile, s.inner, slice);
  memory_.add(inner_, type, squares, kJoined * s.inner);
  memory_.add(joined_, type, squares, s.width);
  memory_.add(merged_, type, squares, s.out);
  return memory_.allocate(device);
}

class MiniCpmvEncodeRun final : public TowerRun {
 public:
  MiniCpmvEncodeRun(const EncodeArgs& args, const MiniCpmvTower& tower)
      : TowerRun(args, tower.stack_.blocks.size()),
        tower_(tower),
        settings_(tower.settings_),
        tiles_(tiles_of(images_, settings_.patch)) {
    take_rows(tower_.hidden_, tiles_.back().begin + tiles_.back().rows());
    for (const Tile& tile : tiles_) {
      for (const auto& [count, length] :
           {std::pair{tile.rows(), tile.rows()}, std::pair{tile.rows(), kJoined},
            std::pair{tile.rows() / kJoined, tile.rows() / kJoined}})
        add_plan(count, length);
    }
    for (const PreparedImage* image : images_)
      tokens_.add(image->patch_rows() / (settings_.joins() ? kJoined * kJoined : kJoined));
  }

 private:
  void embed(WorkList& works) override {
    list_patches(works, stream_, images_, tower_.patch_embed_, tower_.cut_, hidden_);
    for (const Tile& tile : tiles_) {
      works.add({.units = tile.rows(),
                 .unit_cost = 2 * kNumberCost * static_cast<double>(settings_.width),
                 .run = [this, begin_of_tile = tile.begin, positions = positions_of(tile)](
                            std::int64_t begin, std::int64_t end) {
                   const View places = tower_.stack_.room(end).row_range(begin, end);
                   const std::vector<std::int32_t> rows(positions.begin() + begin,
                                                        positions.begin() + end);
                   stream_.mix_rows({.x = tower_.positions_.view,
                                     .rows = stream_.upload(rows),
                                     .weights = {},
                                     .out = places});
                   stream_.add(places,
                               hidden_.row_range(begin_of_tile + begin, begin_of_tile + end), 1);
                 }});
    }
    show_rows(works, "vision.patch_embed");
  }

  // Of its patches in the order of their rows (SquareRows).
  std::vector<std::int32_t> positions_of(const Tile& tile) const {
    const std::int64_t side = settings_.positions();
    const std::vector<std::int32_t> down = nearest_positions(tile.height, side);
    const std::vector<std::int32_t> across = nearest_positions(tile.width, side);
    std::vector<std::int32_t> rows(static_cast<std::size_t>(tile.rows()));
    for (std::int64_t r = 0; r < tile.rows(); ++r) {
      const std::int64_t square = r / kJoinedRows;
      const std::int64_t quarter = r / kJoined % kJoined;
      const std::int64_t patch = r % kJoined;
      const std::int64_t wide = tile.width / kSquarePatches;
      const std::int64_t y = square / wide * kSquarePatches + quarter / 2 * 2 + patch / 2;
      const std::int64_t x = square % wide * kSquarePatches + quarter % 2 * 2 + patch % 2;
      rows[static_cast<std::size_t>(r)] =
          down[static_cast<std::size_t>(y)] * static_cast<std::int32_t>(side) +
          across[static_cast<std::size_t>(x)];
    }
    return rows;
  }

  // Segments of `length` rows each.
  void add_plan(std::int64_t rows, std::int64_t length) {
    const SegmentPlan*& plan = plans_[{rows, length}];
    if (plan != nullptr) return;
    std::vector<std::int32_t> begins;
    for (std::int64_t begin = 0; begin <= rows; begin += length)
      begins.push_back(static_cast<std::int32_t>(begin));
    plan = &stream_.plan_segments(begins, tower_.stack_.geometry());
  }
  const SegmentPlan& plan(std::int64_t rows, std::int64_t length) const {
    return *plans_.at({rows, length});
  }

  void layer(WorkList& works, std::size_t index) override {
    const bool joined =
        settings_.joins() && static_cast<std::int64_t>(index) > settings_.joined_after;
    for (const Tile& tile : tiles_) {
      const std::int64_t rows = tile.rows() / (joined ? kJoined : 1);
      const std::int64_t begin = tile.begin / (joined ? kJoined : 1);
      tower_.stack_.block(works, stream_, index, plan(rows, rows), {},
                          hidden_.row_range(begin, begin + rows));
    }
    show_rows(works, fmt::format("{}.layer.{}", joined ? "joined" : "vision", index));
    if (settings_.joins() && static_cast<std::int64_t>(index) == settings_.joined_after)
      list_joining(works);
  }

  // x = mean of four + out(act(in(norm(the four together)))), once they have attended to each
  // other. Rows move to the front.
  void list_joining(WorkList& works) {
    const View all = hidden_;
    for (const Tile& tile : tiles_) {
      const View part = all.row_range(tile.begin, tile.begin + tile.rows());
      tower_.stack_.attention(works, stream_, tower_.window_, plan(tile.rows(), kJoined), {}, part);
      works.add({.units = tile.rows() / kJoined,
                 .unit_cost = row_cost(tower_.window_in_) + row_cost(tower_.window_out_),
                 .run = [this, all, part, to = tile.begin / kJoined](std::int64_t begin,
                                                                     std::int64_t end) {
                   const std::int64_t slice = tower_.joined_.rows();
                   for (; begin < end; begin += slice) {
                     const std::int64_t last = std::min(begin + slice, end);
                     join(part.row_range(begin * kJoined, last * kJoined),
                          all.row_range(to + begin, to + last));
                   }
                 }});
    }
    works.once([this] { hidden_ = hidden_.row_range(0, hidden_.rows() / kJoined); });
    show_rows(works, "joined.merger");
  }

  void join(View patches, View out) {
    const View normed = tower_.stack_.normed(patches.rows()).reshape(out.rows(), four());
    const View inner = tower_.inner_.row_range(0, out.rows());
    const View joined = tower_.joined_.row_range(0, out.rows());
    std::vector<std::int32_t> rows(static_cast<std::size_t>(patches.rows()));
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<float> quarter(rows.size(), 1.0f / kJoined);
    apply_norm(stream_, tower_.window_norm_, settings_.norm, patches.reshape(out.rows(), four()),
               normed);
    stream_.mix_rows({.x = patches,
                      .rows = stream_.upload(rows),
                      .weights = stream_.upload(quarter),
                      .taps = kJoined,
                      .out = joined});
    apply_linear(stream_, tower_.window_in_, normed, inner, {}, Activation::kGeluTanh);
    apply_linear(stream_, tower_.window_out_, inner, joined, joined);
    stream_.copy(joined, out);
  }

  void project(WorkList& works) override {
    tokens_.list(works, row_cost(tower_.merger_in_) + row_cost(tower_.merger_out_),
                 tower_.merged_.rows(),
                 [this](std::size_t image, std::int64_t begin, std::int64_t end) {
                   merge(image, begin, end);
                 });
  }

  // Tokens [begin, end) of an image.
  void merge(std::size_t image, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin;
    const std::int64_t first = tokens_.begin(image);
    const View part = hidden_.row_range((first + begin) * kJoined, (first + end) * kJoined);
    const View normed = tower_.stack_.normed(part.rows());
    const View four_together = normed.reshape(count, four());
    const View inner = tower_.stack_.room(part.rows()).reshape(count, four());
    const View merged = tower_.merged_.row_range(0, count);
    apply_norm(stream_, tower_.last_norm_, settings_.norm, part, normed);
    apply_norm(stream_, tower_.merger_norm_, kMiniCpmvMergerNorm, four_together, four_together);
    apply_linear(stream_, tower_.merger_in_, four_together, inner, {}, Activation::kGeluErf);
    apply_linear(stream_, tower_.merger_out_, inner, merged);
    put(merged, out_[image], first + begin, first);
    show(tap_, stream_, "vision.merged", merged);
  }

  // Tokens, the first of which is `first` of the run, to where an image wants them: row by row of
  // the whole and of each slice. Where patches have been joined before they stand so.
  void put(View merged, View out, std::int64_t first, std::int64_t first_of_image) {
    if (settings_.joins()) {
      const std::int64_t begin = first - first_of_image;
      stream_.copy(merged, out.row_range(begin, begin + merged.rows()));
      return;
    }
    std::vector<std::int32_t> rows(static_cast<std::size_t>(merged.rows()));
    for (std::size_t r = 0; r < rows.size(); ++r)
      rows[r] =
          static_cast<std::int32_t>(in_rows(first + static_cast<std::int64_t>(r)) - first_of_image);
    stream_.copy_rows(
        {.from = merged, .from_rows = {}, .to = out, .to_rows = stream_.upload(rows)});
  }

  // Of a token of the run, counted quarter by quarter of its squares, its number row by row.
  std::int64_t in_rows(std::int64_t token) const {
    const auto after = std::ranges::upper_bound(tiles_, token * kJoined, {}, &Tile::begin);
    const Tile& tile = *std::prev(after);
    const std::int64_t begin = tile.begin / kJoined;
    const std::int64_t square = (token - begin) / kJoined;
    const std::int64_t quarter = (token - begin) % kJoined;
    const std::int64_t wide = tile.width / kSquarePatches;
    const std::int64_t y = square / wide * 2 + quarter / 2;
    const std::int64_t x = square % wide * 2 + quarter % 2;
    return begin + y * 2 * wide + x;
  }

  std::int64_t four() const { return kJoined * settings_.width; }

  const MiniCpmvTower& tower_;
  const MiniCpmvTowerSettings& settings_;
  std::vector<Tile> tiles_;
  ImageUnits tokens_;
  std::map<std::pair<std::int64_t, std::int64_t>, const SegmentPlan*> plans_;
};

std::unique_ptr<EncodeRun> MiniCpmvTower::begin(const EncodeArgs& args) {
  return std::make_unique<MiniCpmvEncodeRun>(args, *this);
}

}  // namespace

std::unique_ptr<VisionTower> make_minicpmv_tower(const MiniCpmvTowerSettings& settings) {
  return std::make_unique<MiniCpmvTower>(settings);
}

}  // namespace saccade
