#include "cluster/seed_size_rule.h"

#include <algorithm>
#include <cmath>

namespace saccade::cluster {
namespace {

constexpr Nanos kWindow = 3 * kSecond;
constexpr double kLeastSpan = 1;         // seconds
constexpr double kNoRate = 1e-5;         // keeps the division finite
constexpr double kSquare = 28;           // pixels of a visual token's side
constexpr std::size_t kMost = 1u << 20;  // requests within the window that are told apart

}  // namespace

std::int64_t seed_capacity(Nanos target, const SeedLine& line) {
  const double tokens = (milliseconds(target) - line.intercept) / line.slope;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(tokens));
}

std::int64_t seed_budget(std::int64_t capacity, Nanos target, double rate) {
  const double tokens = static_cast<double>(capacity) / (seconds(target) * (rate + kNoRate));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(tokens, 1e15)));
}

std::optional<PixelSize> seed_reduced(int width, int height, std::int64_t budget) {
  const double squares = (width / kSquare) * (height / kSquare);
  if (squares <= static_cast<double>(budget)) return std::nullopt;
  const int longer = static_cast<int>(std::sqrt(static_cast<double>(budget)) * kSquare);
  const auto follow = [longer](int shorter_side, int longer_side) {
    const std::int64_t side = std::int64_t{shorter_side} * longer / longer_side;
    return static_cast<int>(std::max<std::int64_t>(1, side));
  };
  if (width >= height) return PixelSize{longer, follow(height, width)};
  return PixelSize{follow(width, height), longer};
}

double SeedRate::arrived() {
  const Nanos now = clock_.now();
  while (!arrivals_.empty() && now - arrivals_.front() > kWindow) arrivals_.pop_front();
  arrivals_.push_back(now);
  if (arrivals_.size() > kMost) arrivals_.pop_front();
  const double span = std::max(kLeastSpan, seconds(now - arrivals_.front()));
  return static_cast<double>(arrivals_.size()) / span;
}

}  // namespace saccade::cluster
