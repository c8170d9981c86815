// The arithmetic is Pillow's, operation by operation in double precision: the weights must be the
// same integers.
#include "image/resample_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace saccade {
namespace {

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double support_of(ResampleFilter filter) {
  switch (filter) {
    case ResampleFilter::kNearest:
      break;
    case ResampleFilter::kBox:
      return 0.5;
    case ResampleFilter::kBilinear:
    case ResampleFilter::kHamming:
      return 1.0;
    case ResampleFilter::kBicubic:
      return 2.0;
    case ResampleFilter::kLanczos:
      return 3.0;
  }
  return 0.0;
}

double value_at(ResampleFilter filter, double x) {
  const double distance = std::abs(x);
  switch (filter) {
    case ResampleFilter::kBox:
      return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case ResampleFilter::kBilinear:
      return distance < 1.0 ? 1.0 - distance : 0.0;
    case ResampleFilter::kBicubic: {
      constexpr double kA = -0.5;
      const double d = distance;
      if (d < 1.0) return ((kA + 2.0) * d - (kA + 3.0)) * d * d + 1;
      if (d < 2.0) return (((d - 5) * d + 8) * d - 4) * kA;
      return 0.0;
    }
    case ResampleFilter::kLanczos:
      return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    case ResampleFilter::kHamming: {
      if (distance == 0.0) return 1.0;
      if (distance >= 1.0) return 0.0;
      const double d = distance * std::numbers::pi;
      return std::sin(d) / d * (0.54f + 0.46f * std::cos(d));  // Pillow's are floats too
    }
    case ResampleFilter::kNearest:
      break;
  }
  return 0.0;
}

std::int32_t fixed_point(double weight) {
  const double scaled = weight * (1 << kWeightBits);
  return static_cast<std::int32_t>(weight < 0 ? scaled - 0.5 : scaled + 0.5);
}

}  // namespace

ResampleTable make_resample_table(int from_size, int to_size, ResampleFilter filter) {
  CHECK(from_size > 0 && to_size > 0, "{} to {} samples", from_size, to_size);
  CHECK(filter != ResampleFilter::kNearest, "a nearest sample has no weights");
  const double scale = static_cast<double>(from_size) / to_size;
  const double stretch = std::max(scale, 1.0);  // shrinking widens the filter
  const double support = support_of(filter) * stretch;

  ResampleTable table;
  table.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  table.first.resize(static_cast<std::size_t>(to_size));
  table.count.resize(static_cast<std::size_t>(to_size));
  table.weights.resize(static_cast<std::size_t>(to_size) * static_cast<std::size_t>(table.taps));
  std::vector<double> exact(static_cast<std::size_t>(table.taps));
  const double inverse = 1.0 / stretch;
  for (std::size_t i = 0; i < table.first.size(); ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int last = std::min(static_cast<int>(center + support + 0.5), from_size);
    const int count = last - first;
    double total = 0.0;
    for (int k = 0; k < count; ++k) {
      exact[static_cast<std::size_t>(k)] = value_at(filter, (k + first - center + 0.5) * inverse);
      total += exact[static_cast<std::size_t>(k)];
    }
    std::int32_t* weights = table.weights.data() + i * static_cast<std::size_t>(table.taps);
    for (int k = 0; k < count; ++k) {
      const double weight = exact[static_cast<std::size_t>(k)];
      weights[k] = fixed_point(total != 0.0 ? weight / total : weight);
    }
    table.first[i] = first;
    table.count[i] = count;
  }
  return table;
}

}  // namespace saccade
