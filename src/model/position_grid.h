// Learnt positions of a square of patches, for a square of another size.
#pragma once

#include <cstdint>
#include <vector>

namespace saccade {

// [from^2, width] to [to^2, width], bicubic (a = -0.75), corners not aligned, borders repeated: as
// torch's interpolate. The same size is the same numbers.
std::vector<float> resample_positions(const std::vector<float>& rows, std::int64_t from,
                                      std::int64_t to, std::int64_t width);

}  // namespace saccade
