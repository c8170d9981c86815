// An image ready for the encoder: resized pixels of 8 bits, and how input rows are cut from them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/threads/thread_pool.h"
#include "image/pixels.h"
#include "model/images/image_layout.h"

namespace saccade {

class SquareCutter;

// From 8-bit pixels to the encoder's input rows: normalised, and cut as the family cuts them.
// Immutable; any thread. A row follows from its number and the pixels alone, so that rows may be
// cut in any pieces.
class PatchCutter {
 public:
  virtual ~PatchCutter() = default;
  virtual std::int64_t row_length() const = 0;  // floats
  // Rows [begin, end) to [end - begin, row_length].
  virtual void cut(std::span<const Pixels> frames, std::int64_t begin, std::int64_t end,
                   std::span<float> to) const = 0;
  // How rows from `begin` on are cut by whoever can cut squares of pixels; null: only cut() does
  // it.
  virtual const SquareCutter* squares(std::int64_t /*begin*/) const { return nullptr; }
};

// What the encoder takes of one image or one group of a video's frames: resized pixels of 8 bits.
// They become floats when the encoder begins with them, a slice at a time.
struct PreparedImage {
  ImageLayout layout;
  std::vector<Pixels> frames;  // one of an image, however often it is repeated in its rows
  std::shared_ptr<const PatchCutter> cutter;

  std::int64_t patch_rows() const { return layout.grid_t * layout.grid_h * layout.grid_w; }
};

// Rows [begin, end) of an image, cut on all threads. `to` has as many floats.
void cut_rows(ThreadPool& pool, const PreparedImage& image, std::int64_t begin, std::int64_t end,
              std::span<float> to);

}  // namespace saccade
