#include "model/towers/patch_tower.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "model/towers/position_grid.h"
#include "model/towers/tower_run.h"

namespace saccade {
Result<std::vector<std::int64_t>> vision_layers(const json::object& vision, std::string_view name,
                                                std::vector<std::int64_t> fallback) {
  const json::value* list = json::find(vision, name);
  if (list == nullptr) return fallback;
  if (!list->is_array())
    return fail(ErrorCode::kInvalid, "vision_config.{} is {}, not a list", name,
                json::kind_name(*list));
  std::vector<std::int64_t> layers;
  for (const json::value& layer : list->get_array()) {
    if (!layer.is_int64())
      return fail(ErrorCode::kInvalid, "vision_config.{} holds {}", name, json::kind_name(layer));
    layers.push_back(layer.get_int64());
  }
  return layers;
}

Result<double> vision_rope_theta(const json::object& vision) {
  constexpr double kTheta = 10000;
  const json::value* rope = json::find(vision, "rope_parameters");
  if (rope == nullptr || !rope->is_object()) return kTheta;
  return json::get_double_or(rope->get_object(), "rope_theta", kTheta);
}

Result<void> check_patch_tower(const PatchTowerSettings& s) {
  // A quarter of a head turns by the patch's row, twice, and as much by its column.
  if (s.channels != 3 || s.embed % s.heads != 0 || s.head_dim() % 4 != 0)
    return fail(ErrorCode::kUnsupported, "vision_config: {} channels, width {} in {} heads",
                s.channels, s.embed, s.heads);
  for (std::size_t i = 0; i < s.deepstack.size(); ++i) {
    const std::int64_t least = i == 0 ? 0 : s.deepstack[i - 1] + 1;
    if (s.deepstack[i] < least || s.deepstack[i] >= s.depth)
      return fail(ErrorCode::kInvalid,
                  "vision_config.deepstack_visual_indexes holds {} after {} of {} layers",
                  s.deepstack[i], least - 1, s.depth);
  }
  return {};
}

PatchOrder order_patches(std::span<const PreparedImage* const> images, std::int64_t merge,
                         std::int64_t window) {
  PatchOrder order;
  order.frame_begins = {0};
  std::int64_t first_square = 0;
  // The squares of rows [top, bottom) and columns [left, right) of one frame.
  const auto add = [&](std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right,
                       std::int64_t across) {
    for (std::int64_t y = top; y < bottom; ++y) {
      for (std::int64_t x = left; x < right; ++x) {
        if (window > 0) {
          order.squares.push_back(static_cast<std::int32_t>(first_square + y * across + x));
        }
        for (std::int64_t i = 0; i < merge * merge; ++i) {
          order.rows.push_back(static_cast<std::int32_t>(y * merge + i / merge));
          order.columns.push_back(static_cast<std::int32_t>(x * merge + i % merge));
        }
      }
    }
  };
  if (window > 0) order.window_begins = {0};
  for (const PreparedImage* image : images) {
    const std::int64_t height = image->layout.grid_h / merge;
    const std::int64_t width = image->layout.grid_w / merge;
    const std::int64_t tall = window > 0 ? window : height;
    const std::int64_t wide = window > 0 ? window : width;
    for (std::int64_t frame = 0; frame < image->layout.grid_t; ++frame) {
      for (std::int64_t y = 0; y < height; y += tall) {
        for (std::int64_t x = 0; x < width; x += wide) {
          add(y, std::min(y + tall, height), x, std::min(x + wide, width), width);
          if (window > 0)
            order.window_begins.push_back(static_cast<std::int32_t>(order.rows.size()));
        }
      }
      order.frame_begins.push_back(static_cast<std::int32_t>(order.rows.size()));
      first_square += height * width;
    }
  }
  return order;
}

void PatchAngles::add(Scratch& memory, std::int64_t patch_rows, std::int64_t head_dim) {
  head_dim_ = head_dim;
  const std::int64_t pairs = head_dim / 2;
  memory.add(inv_freq_, DType::kF32, 1, pairs);
  memory.add(axis_, DType::kU8, 1, pairs);  // zeroed
  memory.add(cos_, DType::kF32, patch_rows, pairs);
  memory.add(sin_, DType::kF32, patch_rows, pairs);
}

void PatchAngles::fill(Device& device, double theta) const {
  std::vector<float> quarter = rope_frequencies(theta, head_dim_ / 2);
  std::vector<std::uint8_t> columns(quarter.size(), 1);
  const auto turned = static_cast<std::int64_t>(quarter.size());
  Stream& copy = device.lane(Lane::kCopy);
  const View by_pair(quarter.data(), DType::kF32, 1, turned);
  copy.upload(by_pair, inv_freq_.col_range(0, turned));
  copy.upload(by_pair, inv_freq_.col_range(turned, 2 * turned));
  copy.upload(View(columns.data(), DType::kU8, 1, turned), axis_.col_range(turned, 2 * turned));
  copy.synchronize();
}

void PatchAngles::turn(Stream& stream, const PatchOrder& order) const {
  const auto rows = static_cast<std::int64_t>(order.rows.size());
  std::vector<std::int32_t> positions = order.rows;
  positions.insert(positions.end(), order.columns.begin(), order.columns.end());
  stream.rope_table({.positions = stream.upload(positions),
                     .inv_freq = inv_freq_,
                     .axis = axis_,
                     .tables = {},
                     .cos = cos(rows),
                     .sin = sin(rows)});
}

void embed_rows(Stream& stream, std::span<const PreparedImage* const> images, const Linear& linear,
                std::span<float> cut, View patches, View out) {
  std::int64_t row = 0;
  for (const PreparedImage* image : images) {
    const std::int64_t count = image->patch_rows();
    for (std::int64_t begin = 0; begin < count; begin += patches.rows()) {
      const std::int64_t rows = std::min(patches.rows(), count - begin);
      const View part(cut.data(), DType::kF32, rows, patches.cols());
      cut_rows(stream.device().pool(), *image, begin, begin + rows,
               cut.first(static_cast<std::size_t>(rows * patches.cols())));
      stream.upload(part, patches.row_range(0, rows));
      apply_linear(stream, linear, patches.row_range(0, rows),
                   out.row_range(row + begin, row + begin + rows));
    }
    row += count;
  }
}

void PatchTower::add_weights(WeightTable& table) {
  const PatchTowerSettings& s = settings_;
  const PatchTowerNames& names = s.names;
  blocks_.resize(static_cast<std::size_t>(s.depth));
  table.patches(patch_embed_, names.tower + "patch_embed.proj",
                {s.embed, s.channels, s.frames, s.patch, s.patch},
                s.patch_bias ? Bias::kYes : Bias::kNo);
  if (s.positions > 0)
    add_position_rows(table, positions_, names.tower + "pos_embed.weight",
                      s.positions * s.positions, s.embed);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    VisionBlock& block = blocks_[i];
    const std::string at = fmt::format("{}blocks.{}.", names.tower, i);
    add_norm(table, block.attention_norm, at + "norm1", s.embed, s.norm);
    table.linear(block.qkv, at + "attn.qkv", 3 * s.embed, s.embed, Bias::kYes,
                 MatrixRole::kTowerLayer);
    table.linear(block.attention_out, at + "attn.proj", s.embed, s.embed, Bias::kYes,
                 MatrixRole::kTowerLayer);
    add_norm(table, block.mlp_norm, at + "norm2", s.embed, s.norm);
    if (s.gated) {
      table.stacked(block.mlp_in, {{at + "mlp.gate_proj", s.inner}, {at + "mlp.up_proj", s.inner}},
                    s.embed, Bias::kYes, MatrixRole::kTowerLayer);
    } else {
      table.linear(block.mlp_in, at + names.mlp_in, s.inner, s.embed, Bias::kYes,
                   MatrixRole::kTowerLayer);
    }
    table.linear(block.mlp_out, at + (s.gated ? "mlp.down_proj" : names.mlp_out), s.embed, s.inner,
                 Bias::kYes, MatrixRole::kTowerLayer);
  }
  const auto add_merger = [&](Merger& merger, const std::string& at, std::int64_t normed) {
    add_norm(table, merger.norm, at + names.merger_norm, normed, s.norm);
    table.linear(merger.in, at + names.merger_in, s.merged(), s.merged(), Bias::kYes);
    table.linear(merger.out, at + names.merger_out, s.out, s.merged(), Bias::kYes);
  };
  add_merger(merger_, names.tower + "merger.", s.embed);
  deepstack_.resize(s.deepstack.size());
  for (std::size_t i = 0; i < deepstack_.size(); ++i)
    add_merger(deepstack_[i], fmt::format("{}deepstack_merger_list.{}.", names.tower, i),
               s.merged());
}

Result<void> PatchTower::reserve(Device& device, std::int64_t patch_rows) {
  const PatchTowerSettings& s = settings_;
  const DType type = device.activation_dtype();
  angles_.add(memory_, patch_rows, s.head_dim());
  const std::int64_t slice = std::min(patch_rows, kMlpRows);
  memory_.add(patches_, type, slice, s.patch_values());
  cut_.resize(static_cast<std::size_t>(slice * s.patch_values()));
  memory_.add(hidden_, type, patch_rows, s.embed);
  memory_.add(scratch_.normed, type, patch_rows, s.embed);
  memory_.add(scratch_.qkv, type, patch_rows, 3 * s.embed);
  memory_.add(scratch_.attention, type, patch_rows, s.embed);
  memory_.add(scratch_.mlp, type, slice, s.gated ? 2 * s.inner : s.inner);
  memory_.add(merged_, type, slice, s.out);
  TRY_DO(memory_.allocate(device));
  angles_.fill(device, s.rope_theta);
  return {};
}

class PatchEncodeRun final : public TowerRun {
 public:
  PatchEncodeRun(Stream& stream, const PatchTower& tower,
                 std::span<const PreparedImage* const> images, std::span<const View> out, Tap tap)
      : TowerRun(stream, images, out, std::move(tap), tower.blocks_.size()),
        tower_(tower),
        settings_(tower.settings_),
        order_(order_patches(images, settings_.merge, settings_.window)),
        attention_({.heads = settings_.heads,
                    .head_dim = settings_.head_dim(),
                    .compute = tower_.compute_}) {
    const std::int64_t rows = order_.frame_begins.back();
    take_rows(tower_.hidden_, rows);
    cos_ = tower_.angles_.cos(rows);
    sin_ = tower_.angles_.sin(rows);
    frames_ = &stream_.plan_segments(order_.frame_begins, segment_geometry(attention_));
    if (windowed())
      windows_ = &stream_.plan_segments(order_.window_begins, segment_geometry(attention_));
  }

 private:
  bool windowed() const { return settings_.window > 0; }
  std::int64_t square() const { return settings_.merge * settings_.merge; }

  void embed() override {
    // As the rows come, and then in the order of computation.
    const View as_prepared =
        windowed() ? tower_.scratch_.normed.row_range(0, hidden_.rows()) : hidden_;
    embed_rows(stream_, images_, tower_.patch_embed_, tower_.cut_, tower_.patches_, as_prepared);
    if (windowed()) {
      const std::int64_t squares = hidden_.rows() / square();
      stream_.mix_rows({.x = as_prepared.reshape(squares, settings_.merged()),
                        .rows = stream_.upload(order_.squares),
                        .weights = {},
                        .out = hidden_.reshape(squares, settings_.merged())});
    }
    if (settings_.positions > 0) add_positions();
    tower_.angles_.turn(stream_, order_);
    show(tap_, stream_, "vision.patch_embed", hidden_);
  }

  // The learnt square of positions stretched over each image's patches.
  void add_positions() {
    PositionTaps taps;
    taps.rows.reserve(4 * order_.rows.size());
    taps.weights.reserve(4 * order_.rows.size());
    std::size_t patch = 0;
    for (const PreparedImage* image : images_) {
      const ImageLayout& grid = image->layout;
      const std::size_t end =
          patch + static_cast<std::size_t>(grid.grid_t * grid.grid_h * grid.grid_w);
      for (; patch < end; ++patch)
        add_bilinear_taps(order_.rows[patch], grid.grid_h, order_.columns[patch], grid.grid_w,
                          settings_.positions, taps);
    }
    const View places = tower_.scratch_.attention.row_range(0, hidden_.rows());
    stream_.mix_rows({.x = tower_.positions_.view,
                      .rows = stream_.upload(taps.rows),
                      .weights = stream_.upload(taps.weights),
                      .taps = 4,
                      .out = places});
    stream_.add(places, hidden_, 1);
  }

  void layer(std::size_t index) override {
    const PatchTowerSettings& s = settings_;
    const VisionBlock& block = tower_.blocks_[index];
    const bool whole =
        !windowed() ||
        std::ranges::find(s.whole_layers, static_cast<std::int64_t>(index)) != s.whole_layers.end();
    vision_attention(stream_, block, s.norm, attention_, whole ? *frames_ : *windows_, cos_, sin_,
                     tower_.scratch_, hidden_);
    vision_mlp(stream_, block, s.norm, s.activation, tower_.scratch_, hidden_);
    if (tap_) show(tap_, stream_, fmt::format("vision.layer.{}", index), hidden_);
    const auto deep = std::ranges::find(s.deepstack, static_cast<std::int64_t>(index));
    if (deep == s.deepstack.end()) return;
    const std::int64_t nth = deep - s.deepstack.begin();
    merge(tower_.deepstack_[static_cast<std::size_t>(nth)], 1 + nth);
  }

  void project() override { merge(tower_.merger_, 0); }

  // Each square's patches, side by side in a row, through an MLP to one slice of the embedding row.
  void merge(const PatchTower::Merger& merger, std::int64_t part_of_row) {
    const PatchTowerSettings& s = settings_;
    const std::string name =
        part_of_row == 0 ? "vision.merged" : fmt::format("vision.deepstack.{}", part_of_row - 1);
    const std::int64_t slice = std::max(kMlpRows / square() * square(), square());
    std::int64_t row = 0;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const std::int64_t tokens = images_[i]->layout.tokens;
      for (std::int64_t begin = 0; begin < tokens * square(); begin += slice) {
        const std::int64_t count = std::min(slice, tokens * square() - begin);
        const View part = hidden_.row_range(row + begin, row + begin + count);
        const std::int64_t squares = count / square();
        const View normed = tower_.scratch_.normed.row_range(0, count);
        const View joined = normed.reshape(squares, s.merged());
        const View inner =
            tower_.scratch_.attention.row_range(0, count).reshape(squares, s.merged());
        const View merged = tower_.merged_.row_range(0, squares);
        if (part_of_row == 0) {
          apply_norm(stream_, merger.norm, s.norm, part, normed);
        } else {
          apply_norm(stream_, merger.norm, s.norm, part.reshape(squares, s.merged()), joined);
        }
        apply_linear(stream_, merger.in, joined, inner, {}, Activation::kGeluErf);
        apply_linear(stream_, merger.out, inner, merged);
        put(merged, out_[i].col_range(part_of_row * s.out, (part_of_row + 1) * s.out),
            (row + begin) / square(), row / square());
        if (tap_) show(tap_, stream_, name, merged);
      }
      row += tokens * square();
    }
  }

  // Merged rows, the first of which is `first` of the run, to where an image wants them.
  void put(View merged, View out, std::int64_t first, std::int64_t first_of_image) {
    if (!windowed()) {
      const std::int64_t begin = first - first_of_image;
      stream_.copy(merged, out.row_range(begin, begin + merged.rows()));
      return;
    }
    std::vector<std::int32_t> rows(static_cast<std::size_t>(merged.rows()));
    for (std::size_t r = 0; r < rows.size(); ++r)
      rows[r] = order_.squares[static_cast<std::size_t>(first) + r] -
                static_cast<std::int32_t>(first_of_image);
    stream_.copy_rows(
        {.from = merged, .from_rows = {}, .to = out, .to_rows = stream_.upload(rows)});
  }

  const PatchTower& tower_;
  const PatchTowerSettings& settings_;
  PatchOrder order_;
  VisionAttention attention_;
  const SegmentPlan* frames_ = nullptr;
  const SegmentPlan* windows_ = nullptr;  // null without windows
  View cos_;
  View sin_;
};

std::unique_ptr<EncodeRun> PatchTower::begin(Stream& stream,
                                             std::span<const PreparedImage* const> images,
                                             std::span<const View> out, const Tap& tap) {
  return std::make_unique<PatchEncodeRun>(stream, *this, images, out, tap);
}

}  // namespace saccade
