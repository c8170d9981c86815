#include "model/images/square_cutter.h"

namespace saccade {

void SquareCutter::cut(std::span<const Pixels> frames, std::int64_t begin, std::int64_t end,
                       std::span<float> to) const {
  float* row = to.data();
  for (std::int64_t r = begin; r < end; ++r, row += row_length()) {
    const PatchPlace at = place(frames.front(), r);
    write_patch(frames, at.top, at.left, layout_, normalize_, row);
  }
}

}  // namespace saccade
