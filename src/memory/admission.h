// Whether a demand for pages can be met, and how many large pages each group may open for it. Pure.
//
// max = large pages when every small page comes from a new one (what keeps requests apart),
// min = large pages when stray small pages are used first. Enough for all max: take max. Enough for
// all min: take min. Else later; more than the pool has in all: never.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace saccade {

enum class Admission : std::uint8_t { kNow, kLater, kNever };

// One group's side of a demand. Cached pages that may be evicted count as free.
struct GroupDemand {
  std::int64_t pages = 0;      // small pages wanted
  std::int64_t ratio = 1;      // small pages in a large page
  std::int64_t own_stray = 0;  // free small pages in large pages of the asker
  std::int64_t stray = 0;      // free or evictable small pages in live large pages, own included
  std::int64_t available_large = 0;  // large pages it could get if the others asked for none
  std::int64_t reserved = 0;         // of them, set aside for it: no part of the common ones
  std::int64_t largest = 0;          // large pages it could ever hold
};

struct Quota {
  Admission verdict = Admission::kLater;
  std::vector<std::int64_t> large;  // [groups], with kNow
};

// available_large: large pages common to all groups, free or to be emptied by eviction.
Quota decide(std::span<const GroupDemand> demands, std::int64_t available_large,
             std::int64_t total_large);

}  // namespace saccade
