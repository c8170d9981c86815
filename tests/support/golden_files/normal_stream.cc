#include "tests/support/golden_files/normal_stream.h"

#include <cmath>
#include <numbers>
#include <random>

namespace saccade::test {
namespace {

// 0 < x <= 1. By log((1 + t) / (1 - t)) = 2 (t + t^3 / 3 + ...), |t| < 0.18.
double logarithm(double x) {
  int exponent;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  const double t = (mantissa - 1) / (mantissa + 1);
  double sum = 0;
  for (int power = 23; power >= 1; power -= 2) sum = sum * t * t + 1.0 / power;
  return 2 * t * sum + exponent * std::numbers::ln2;
}

struct Turned {
  double cosine, sine;
};

// Of `turns` whole turns, 0 <= turns < 1: Taylor's series within an eighth of a turn, then by
// quarters.
Turned turned(double turns) {
  const int quarter = static_cast<int>(turns * 4 + 0.5);
  const double x = (turns - quarter * 0.25) * 2 * std::numbers::pi, square = x * x;
  double cosine = 1, sine = 1;
  for (int n = 18; n >= 2; n -= 2) {
    cosine = 1 - square / (n * (n - 1)) * cosine;
    sine = 1 - square / (n * (n + 1)) * sine;
  }
  sine *= x;
  switch (quarter % 4) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

}  // namespace

NormalStream::NormalStream(uint32_t seed, size_t draws) {
  std::mt19937 random(seed);
  std::vector<double> uniform(draws + 8);
  for (double& each : uniform) each = static_cast<double>(random() & 0xffffff) / (1 << 24);
  cosines_.reserve(draws);
  sines_.reserve(draws);
  for (size_t i = 0; i < draws; ++i) {
    const double radius = std::sqrt(-2 * logarithm(1 - uniform[i]));
    const Turned angle = turned(uniform[i + 8]);
    cosines_.push_back(static_cast<float>(radius * angle.cosine));
    sines_.push_back(static_cast<float>(radius * angle.sine));
  }
}

}  // namespace saccade::test
