#include "engine/images/piece_rates.h"

#include <algorithm>

namespace saccade {
namespace {

// A piece that was slow is believed at once, one that was fast by half.
constexpr double kTrustInHaste = 0.5;
constexpr double kMaxSlower = 16;  // times what was expected, that one piece may show
constexpr double kMaxFaster = 4;
constexpr double kTelling = 0.25;  // of the aim: pieces of that length tell as much as any

}  // namespace

void PieceRates::observe(const WorkCost& cost, double seconds, double aim) {
  double expected = 0;
  for (std::size_t kind = 0; kind < kWorkKinds; ++kind) expected += cost[kind] / rates_[kind];
  if (expected <= 0 || seconds <= 0 || aim <= 0) return;
  const double slower = std::clamp(seconds / expected, 1 / kMaxFaster, kMaxSlower);
  const double size = std::min(1.0, std::max(expected, seconds) / (kTelling * aim));
  const double trust = size * (slower > 1 ? 1 : kTrustInHaste);
  const WorkCost before = rates_;
  for (std::size_t kind = 0; kind < kWorkKinds; ++kind) {
    const double share = cost[kind] / before[kind] / expected;
    rates_[kind] /= 1 + trust * share * (slower - 1);
  }
}

}  // namespace saccade
