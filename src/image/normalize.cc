#include "image/normalize.h"

namespace saccade {

NormalizeTable::NormalizeTable(const NormalizeSettings& settings) {
  for (std::size_t c = 0; c < 3; ++c) {
    const float mean = static_cast<float>(settings.mean[c]);
    const float std = static_cast<float>(settings.std[c]);
    for (std::size_t v = 0; v < 256; ++v) {
      const float rescaled = static_cast<float>(static_cast<double>(v) * settings.rescale);
      values_[c][v] = (rescaled - mean) / std;
    }
  }
}

}  // namespace saccade
