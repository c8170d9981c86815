// 8-bit samples to the floats that a vision encoder takes.
#pragma once

#include <array>

namespace saccade {

struct NormalizeSettings {
  double rescale = 1.0 / 255;
  std::array<double, 3> mean = {0.48145466, 0.4578275, 0.40821073};  // of OpenAI's CLIP
  std::array<double, 3> std = {0.26862954, 0.26130258, 0.27577711};
};

// Every value a sample can take, once: transformers' rescale in double, rounded to float, then
// (x - mean) / std in float.
class NormalizeTable {
 public:
  explicit NormalizeTable(const NormalizeSettings& settings = {});
  const std::array<float, 256>& channel(int c) const {
    return values_[static_cast<std::size_t>(c)];
  }
  const std::array<std::array<float, 256>, 3>& channels() const { return values_; }

 private:
  std::array<std::array<float, 256>, 3> values_{};
};

}  // namespace saccade
