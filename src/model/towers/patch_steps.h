// What towers over patches of whole images do before and after their blocks, as works of a run:
// cut patches, turn angles, stretch learnt positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/blocks/blocks.h"
#include "model/blocks/scratch.h"
#include "model/towers/position_grid.h"
#include "model/towers/tower_run.h"
#include "model/towers/tower_weights.h"

namespace saccade {

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

  std::int64_t patches() const { return frame_begins.back(); }
};
PatchOrder order_patches(std::span<const PreparedImage* const> images, std::int64_t merge,
                         std::int64_t window);

// Patches on their way from pixels to the device, a slice at a time: all that exists of pixels as
// floats. A device that cuts patches is sent the pixels. One run at a time has it.
class PatchCut {
 public:
  void add(Scratch& memory, DType type, std::int64_t rows, std::int64_t values);
  std::int64_t most() const { return rows_.rows(); }
  // Rows [begin, end) of the image, `most()` at the most, on the device.
  View cut(Stream& stream, const PreparedImage& image, std::int64_t begin, std::int64_t end) const;

 private:
  View rows_;  // [rows, values]
  mutable std::vector<float> floats_;
};

// The rows of all images, cut, through `linear` to rows of `out` in the same order.
void list_patches(WorkList& works, Stream& stream, std::span<const PreparedImage* const> images,
                  const Linear& linear, const PatchCut& cut, View out);

// rows = norm(rows)
void list_norm(WorkList& works, Stream& stream, const Norm& norm, const NormStyle& style,
               View rows);

// A square of learnt positions, `side` a side, stretched over each image's patches: each of a
// patch's place is the sum of `taps` rows of the table.
struct StretchedPositions {
  const PositionRows* table = nullptr;
  std::int64_t side = 0;
  std::int64_t taps = 0;
  void (*add_taps)(std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t width,
                   std::int64_t side, PositionTaps& taps) = nullptr;
};
struct OrderedImages {
  std::span<const PreparedImage* const> images;
  const PatchOrder& order;
};
// They are added to `rows`, which stand as the images' order says, by way of `room`.
void list_positions(WorkList& works, Stream& stream, const OrderedImages& of,
                    const StretchedPositions& positions, View room, View rows);

// Angles of a tower's heads, whose first half of pairs turns by a patch's row and whose second by
// its column.
class PatchAngles {
 public:
  // What they need, before memory.allocate(). head_dim is a multiple of four.
  void add(Scratch& memory, std::int64_t patch_rows, std::int64_t head_dim);
  // After it: the frequencies of rows, and of columns.
  void fill(Device& device, std::span<const float> by_row, std::span<const float> by_column) const;
  void fill(Device& device, double theta) const;  // both are those of half a head
  // Of the patches of `order`; then cos() and sin() have them.
  void list(WorkList& works, Stream& stream, const PatchOrder& order) const;
  View cos(std::int64_t rows) const { return cos_.row_range(0, rows); }
  View sin(std::int64_t rows) const { return sin_.row_range(0, rows); }

 private:
  std::int64_t head_dim_ = 0;
  View inv_freq_;  // [1, head_dim / 2]
  View axis_;      // [1, head_dim / 2] u8
  View cos_;       // [patch rows, head_dim / 2]
  View sin_;
};

}  // namespace saccade
