#include "image/normalize.h"

#include "base/check.h"

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

void normalize_planes(const Pixels& pixels, const NormalizeTable& table, std::span<float> to) {
  const std::size_t area =
      static_cast<std::size_t>(pixels.width) * static_cast<std::size_t>(pixels.height);
  CHECK(to.size() == area * 3, "{} floats for {}x{} pixels", to.size(), pixels.width,
        pixels.height);
  for (int c = 0; c < 3; ++c) {
    const std::array<float, 256>& values = table.channel(c);
    const std::uint8_t* from = pixels.rgb.data() + c;
    float* plane = to.data() + static_cast<std::size_t>(c) * area;
    for (std::size_t i = 0; i < area; ++i) plane[i] = values[from[3 * i]];
  }
}

}  // namespace saccade
