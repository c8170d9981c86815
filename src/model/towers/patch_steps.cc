#include "model/towers/patch_steps.h"

#include <algorithm>

#include "model/images/square_cutter.h"
#include "model/towers/vision_stack.h"

namespace saccade {

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

namespace {

// Rows of an image from `begin` on, by the device.
void cut_squares(Stream& stream, const PreparedImage& image, const SquareCutter& squares,
                 std::int64_t begin, View to) {
  const Pixels& first = image.frames.front();
  std::vector<std::span<const std::uint8_t>> frames;
  for (const Pixels& frame : image.frames) frames.emplace_back(frame.rgb);
  std::vector<PatchPlace> places;
  places.reserve(static_cast<std::size_t>(to.rows()));
  for (std::int64_t row = 0; row < to.rows(); ++row)
    places.push_back(squares.place(first, begin + row));
  stream.cut_patches({.frames = frames,
                      .width = first.width,
                      .height = first.height,
                      .places = places,
                      .side = squares.layout().patch_size,
                      .depth = squares.layout().temporal_patch_size,
                      .values = squares.normalize().channels(),
                      .out = to});
}

}  // namespace

void PatchCut::add(Scratch& memory, DType type, std::int64_t rows, std::int64_t values) {
  memory.add(rows_, type, rows, values);
  floats_.resize(static_cast<std::size_t>(rows * values));
}

View PatchCut::cut(Stream& stream, const PreparedImage& image, std::int64_t begin,
                   std::int64_t end) const {
  const View to = rows_.row_range(0, end - begin);
  const SquareCutter* const squares =
      stream.device().cuts_patches() ? image.cutter->squares(begin) : nullptr;
  if (squares != nullptr) {
    cut_squares(stream, image, *squares, begin, to);
    return to;
  }
  cut_rows(stream.device().pool(), image, begin, end,
           std::span(floats_).first(static_cast<std::size_t>(to.rows() * to.cols())));
  stream.upload(View(floats_.data(), DType::kF32, to.rows(), to.cols()), to);
  return to;
}

void list_patches(WorkList& works, Stream& stream, std::span<const PreparedImage* const> images,
                  const Linear& linear, const PatchCut& cut, View out) {
  ImageUnits patches;
  for (const PreparedImage* image : images) patches.add(image->patch_rows());
  works.add({.units = patches.all(),
             .unit_cost = row_cost(linear) + kPixelCost * static_cast<double>(linear.weight->in()),
             .run = [=, &stream, &linear, &cut](std::int64_t begin, std::int64_t end) {
               patches.each(begin, end, cut.most(),
                            [&](std::size_t i, std::int64_t from, std::int64_t to) {
                              const std::int64_t first = patches.begin(i);
                              apply_linear(stream, linear, cut.cut(stream, *images[i], from, to),
                                           out.row_range(first + from, first + to));
                            });
             }});
}

void list_norm(WorkList& works, Stream& stream, const Norm& norm, const NormStyle& style,
               View rows) {
  works.add({.units = rows.rows(),
             .unit_cost = kNumberCost * static_cast<double>(rows.cols()),
             .run = [=, &stream, &norm](std::int64_t begin, std::int64_t end) {
               const View part = rows.row_range(begin, end);
               apply_norm(stream, norm, style, part, part);
             }});
}

void list_positions(WorkList& works, Stream& stream, const OrderedImages& of,
                    const StretchedPositions& positions, View room, View rows) {
  const auto images = of.images;
  const PatchOrder& order = of.order;
  ImageUnits patches;
  for (const PreparedImage* image : images)
    patches.add(image->layout.grid_t * image->layout.grid_h * image->layout.grid_w);
  works.add({.units = rows.rows(),
             .unit_cost = static_cast<double>(positions.taps) *
                          (kAngleCost + static_cast<double>(rows.cols())),
             .run = [=, &stream, &order](std::int64_t begin, std::int64_t end) {
               PositionTaps taps;
               taps.rows.reserve(static_cast<std::size_t>((end - begin) * positions.taps));
               taps.weights.reserve(taps.rows.capacity());
               patches.each(begin, end, end - begin,
                            [&](std::size_t i, std::int64_t from, std::int64_t to) {
                              const ImageLayout& grid = images[i]->layout;
                              for (; from < to; ++from) {
                                const auto at = static_cast<std::size_t>(patches.begin(i) + from);
                                positions.add_taps(order.rows[at], grid.grid_h, order.columns[at],
                                                   grid.grid_w, positions.side, taps);
                              }
                            });
               const View places = room.row_range(begin, end);
               stream.mix_rows({.x = positions.table->view,
                                .rows = stream.upload(taps.rows),
                                .weights = stream.upload(taps.weights),
                                .taps = positions.taps,
                                .out = places});
               stream.add(places, rows.row_range(begin, end), 1);
             }});
}

void PatchAngles::add(Scratch& memory, std::int64_t patch_rows, std::int64_t head_dim) {
  head_dim_ = head_dim;
  const std::int64_t pairs = head_dim / 2;
  memory.add(inv_freq_, DType::kF32, 1, pairs);
  memory.add(axis_, DType::kU8, 1, pairs);  // zeroed
  memory.add(cos_, DType::kF32, patch_rows, pairs);
  memory.add(sin_, DType::kF32, patch_rows, pairs);
}

void PatchAngles::fill(Device& device, std::span<const float> by_row,
                       std::span<const float> by_column) const {
  std::vector<float> all(by_row.begin(), by_row.end());
  all.insert(all.end(), by_column.begin(), by_column.end());
  std::vector<std::uint8_t> axes(by_row.size(), 0);
  axes.resize(all.size(), 1);
  const auto pairs = static_cast<std::int64_t>(all.size());
  Stream& copy = device.lane(Lane::kCopy);
  copy.upload(View(all.data(), DType::kF32, 1, pairs), inv_freq_);
  copy.upload(View(axes.data(), DType::kU8, 1, pairs), axis_);
  copy.synchronize();
}

void PatchAngles::fill(Device& device, double theta) const {
  const std::vector<float> quarter = rope_frequencies(theta, head_dim_ / 2);
  fill(device, quarter, quarter);
}

void PatchAngles::list(WorkList& works, Stream& stream, const PatchOrder& order) const {
  works.add({.units = order.patches(),
             .unit_cost = kAngleCost * static_cast<double>(inv_freq_.cols()),
             .run = [=, this, &stream, &order](std::int64_t begin, std::int64_t end) {
               std::vector<std::int32_t> positions(order.rows.begin() + begin,
                                                   order.rows.begin() + end);
               positions.insert(positions.end(), order.columns.begin() + begin,
                                order.columns.begin() + end);
               stream.rope_table({.positions = stream.upload(positions),
                                  .inv_freq = inv_freq_,
                                  .axis = axis_,
                                  .tables = {},
                                  .cos = cos_.row_range(begin, end),
                                  .sin = sin_.row_range(begin, end)});
             }});
}

}  // namespace saccade
