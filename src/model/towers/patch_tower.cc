#include "model/towers/patch_tower.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "model/towers/tower_weights.h"
#include "model/towers/whole_images.h"

namespace saccade {
namespace {

class PatchTower final : public WholeImageTower {
 public:
  explicit PatchTower(PatchTowerSettings settings)
      : WholeImageTower(settings), settings_(std::move(settings)) {}

  void add_weights(WeightTable& table) override;
  Result<void> reserve(Device& device, std::int64_t patch_rows) override;
  std::unique_ptr<EncodeRun> begin(const EncodeArgs& args) override;

 private:
  friend class PatchEncodeRun;

  struct Merger {
    Norm norm;
    Linear in;
    Linear out;
  };

  PatchTowerSettings settings_;
  Linear patch_embed_;
  PositionRows positions_;  // [settings_.positions^2, embed]
  Merger merger_;
  std::vector<Merger> deepstack_;

  View merged_;  // [kMlpRows / merge^2, out]
};

void PatchTower::add_weights(WeightTable& table) {
  const PatchTowerSettings& s = settings_;
  const PatchTowerNames& names = s.names;
  table.patches(patch_embed_, names.tower + "patch_embed.proj",
                {s.embed, s.channels, s.frames, s.patch, s.patch},
                s.patch_bias ? Bias::kYes : Bias::kNo);
  if (s.positions > 0)
    add_position_rows(table, positions_, names.tower + "pos_embed.weight",
                      s.positions * s.positions, s.embed);
  const std::string up = s.gated ? "mlp.up_proj" : names.mlp_in;
  add_vision_blocks(table, stack_.blocks, s.depth, names.tower + "blocks.",
                    {"norm1",
                     {"attn.qkv"},
                     "attn.proj",
                     "norm2",
                     s.gated ? std::vector<std::string>{"mlp.gate_proj", up} : std::vector{up},
                     s.gated ? "mlp.down_proj" : names.mlp_out},
                    {s.embed, s.inner, s.norm});
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
  const std::int64_t slice = std::min(patch_rows, kMlpRows);
  angles_.add(memory_, patch_rows, s.head_dim());
  cut_.add(memory_, type, slice, s.patch_values());
  memory_.add(hidden_, type, patch_rows, s.embed);
  stack_.add_scratch(memory_, type, patch_rows, s.gated ? 2 * s.inner : s.inner);
  memory_.add(merged_, type, slice, s.out);
  TRY_DO(memory_.allocate(device));
  angles_.fill(device, s.rope_theta);
  return {};
}

class PatchEncodeRun final : public WholeImageRun {
 public:
  PatchEncodeRun(const EncodeArgs& args, const PatchTower& tower)
      : WholeImageRun(args, tower, tower.settings_.merge, tower.settings_.window),
        tower_(tower),
        settings_(tower.settings_) {
    if (windowed())
      windows_ = &stream_.plan_segments(order_.window_begins, tower_.stack_.geometry());
  }

 private:
  bool windowed() const { return settings_.window > 0; }
  std::int64_t square() const { return settings_.merge * settings_.merge; }

  void embed(WorkList& works) override {
    // As the rows come, and then in the order of computation.
    const View as_prepared = windowed() ? tower_.stack_.normed(hidden_.rows()) : hidden_;
    list_patches(works, stream_, images_, tower_.patch_embed_, tower_.cut_, as_prepared);
    if (windowed()) list_ordering(works, as_prepared);
    // The learnt square of positions stretched over each image's patches.
    if (settings_.positions > 0)
      list_positions(works, stream_, {images_, order_},
                     {&tower_.positions_, settings_.positions, 4, add_bilinear_taps},
                     tower_.stack_.room(hidden_.rows()), hidden_);
    tower_.angles_.list(works, stream_, order_);
    show_rows(works, "vision.patch_embed");
  }

  void list_ordering(WorkList& works, View as_prepared) {
    const std::int64_t squares = hidden_.rows() / square();
    const View from = as_prepared.reshape(squares, settings_.merged());
    works.add({.units = squares,
               .unit_cost = kNumberCost * static_cast<double>(settings_.merged()),
               .run = [this, from, squares](std::int64_t begin, std::int64_t end) {
                 const std::vector<std::int32_t> rows(order_.squares.begin() + begin,
                                                      order_.squares.begin() + end);
                 stream_.mix_rows(
                     {.x = from,
                      .rows = stream_.upload(rows),
                      .weights = {},
                      .out = hidden_.reshape(squares, settings_.merged()).row_range(begin, end)});
               }});
  }

  void layer(WorkList& works, std::size_t index) override {
    const PatchTowerSettings& s = settings_;
    const bool whole =
        !windowed() ||
        std::ranges::find(s.whole_layers, static_cast<std::int64_t>(index)) != s.whole_layers.end();
    attend(works, index, whole ? frames_ : *windows_);
    const auto deep = std::ranges::find(s.deepstack, static_cast<std::int64_t>(index));
    if (deep == s.deepstack.end()) return;
    const std::int64_t nth = deep - s.deepstack.begin();
    list_merging(works, tower_.deepstack_[static_cast<std::size_t>(nth)], 1 + nth);
  }

  void project(WorkList& works) override { list_merging(works, tower_.merger_, 0); }

  // Each square's patches, side by side in a row, through an MLP to one slice of the embedding row.
  void list_merging(WorkList& works, const PatchTower::Merger& merger, std::int64_t part_of_row) {
    tokens_.list(
        works, row_cost(merger.in) + row_cost(merger.out),
        std::max<std::int64_t>(kMlpRows / square(), 1),
        [this, &merger, part_of_row](std::size_t image, std::int64_t begin, std::int64_t end) {
          merge(merger, part_of_row, image, begin, end);
        });
  }

  // Tokens [begin, end) of an image.
  void merge(const PatchTower::Merger& merger, std::int64_t part_of_row, std::size_t image,
             std::int64_t begin, std::int64_t end) {
    const PatchTowerSettings& s = settings_;
    const std::int64_t first = tokens_.begin(image);
    const std::int64_t squares = end - begin;
    const View part = hidden_.row_range((first + begin) * square(), (first + end) * square());
    const View normed = tower_.stack_.normed(part.rows());
    const View joined = normed.reshape(squares, s.merged());
    const View inner = tower_.stack_.room(part.rows()).reshape(squares, s.merged());
    const View merged = tower_.merged_.row_range(0, squares);
    if (part_of_row == 0) {
      apply_norm(stream_, merger.norm, s.norm, part, normed);
    } else {
      apply_norm(stream_, merger.norm, s.norm, part.reshape(squares, s.merged()), joined);
    }
    apply_linear(stream_, merger.in, joined, inner, {}, Activation::kGeluErf);
    apply_linear(stream_, merger.out, inner, merged);
    put(merged, out_[image].col_range(part_of_row * s.out, (part_of_row + 1) * s.out),
        first + begin, first);
    if (!tap_) return;
    show(tap_, stream_,
         part_of_row == 0 ? "vision.merged" : fmt::format("vision.deepstack.{}", part_of_row - 1),
         merged);
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
  const SegmentPlan* windows_ = nullptr;  // null without windows
};

std::unique_ptr<EncodeRun> PatchTower::begin(const EncodeArgs& args) {
  return std::make_unique<PatchEncodeRun>(args, *this);
}

}  // namespace

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

std::unique_ptr<VisionTower> make_patch_tower(PatchTowerSettings settings) {
  return std::make_unique<PatchTower>(std::move(settings));
}

}  // namespace saccade
