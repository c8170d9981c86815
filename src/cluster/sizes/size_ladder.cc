#include "cluster/sizes/size_ladder.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"

namespace saccade::cluster {

SizeLadder SizeLadder::halving(std::int64_t top, std::int64_t floor) {
  CHECK(top >= 1 && floor >= 1, "a ladder from {} down to {}", top, floor);
  std::vector<std::int64_t> rungs{top};
  for (int k = 1;; ++k) {
    const auto rung =
        static_cast<std::int64_t>(std::llround(static_cast<double>(top) / std::exp2(k / 2.0)));
    if (rung <= floor) break;
    rungs.push_back(rung);
  }
  if (floor < rungs.back()) rungs.push_back(floor);
  return SizeLadder(std::move(rungs));
}

SizeLadder SizeLadder::of_counts(std::vector<std::int64_t> counts, std::int64_t floor) {
  CHECK(!counts.empty(), "a ladder without a rung");
  std::ranges::sort(counts, std::greater());
  const auto last = std::ranges::unique(counts).begin();
  counts.erase(last, counts.end());
  const std::int64_t top = counts.front();
  std::erase_if(counts, [floor](std::int64_t count) { return count < floor; });
  if (counts.empty()) counts.push_back(top);
  return SizeLadder(std::move(counts));
}

std::int64_t SizeLadder::at_most(double level) const {
  for (const std::int64_t rung : rungs_)
    if (static_cast<double>(rung) <= level) return rung;
  return floor();
}

std::int64_t SizeLadder::below(std::int64_t tokens) const {
  for (const std::int64_t rung : rungs_)
    if (rung < tokens) return rung;
  return floor();
}

}  // namespace saccade::cluster
