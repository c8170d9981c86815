#include "memory/admission.h"

#include <algorithm>

namespace saccade {
namespace {

std::int64_t larges_for(std::int64_t pages, std::int64_t ratio) {
  return std::max<std::int64_t>(0, (pages + ratio - 1) / ratio);
}

}  // namespace

Quota decide(std::span<const GroupDemand> demands, std::int64_t available_large,
             std::int64_t total_large) {
  Quota quota;
  std::int64_t most = 0;
  std::int64_t least = 0;
  std::int64_t alone = 0;  // what an empty pool would have to give
  bool max_fits = true;
  bool least_fits = true;
  for (const GroupDemand& demand : demands) {
    const std::int64_t apart = larges_for(demand.pages - demand.own_stray, demand.ratio);
    const std::int64_t packed = larges_for(demand.pages - demand.stray, demand.ratio);
    const std::int64_t empty = larges_for(demand.pages, demand.ratio);
    if (empty > demand.largest) {
      quota.verdict = Admission::kNever;
      return quota;
    }
    max_fits = max_fits && apart <= demand.available_large;
    least_fits = least_fits && packed <= demand.available_large;
    most += std::max<std::int64_t>(0, apart - demand.reserved);
    least += std::max<std::int64_t>(0, packed - demand.reserved);
    alone += empty;
  }
  if (alone > total_large) {
    quota.verdict = Admission::kNever;
    return quota;
  }
  max_fits = max_fits && most <= available_large;
  least_fits = least_fits && least <= available_large;
  if (!least_fits) return quota;  // later
  quota.verdict = Admission::kNow;
  for (const GroupDemand& demand : demands) {
    const std::int64_t stray = max_fits ? demand.own_stray : demand.stray;
    quota.large.push_back(larges_for(demand.pages - stray, demand.ratio));
  }
  return quota;
}

}  // namespace saccade
