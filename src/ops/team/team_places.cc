#include "ops/team/team_places.h"

#include <utility>

#include "base/check.h"

namespace saccade {

void TeamPlaces::add(std::vector<const std::byte*> at, std::size_t bytes) {
  const std::byte* const first = at.front();
  const bool is_new = pieces_.insert({first, {std::move(at), bytes}}).second;
  CHECK(is_new, "two pieces of {} bytes at one address", bytes);
}

std::byte* TeamPlaces::of(int rank, const std::byte* address) const {
  auto piece = pieces_.upper_bound(address);
  if (piece == pieces_.begin()) return nullptr;
  --piece;
  const auto offset = static_cast<std::size_t>(address - piece->first);
  if (offset >= piece->second.bytes) return nullptr;
  return const_cast<std::byte*>(piece->second.at[static_cast<std::size_t>(rank)]) + offset;
}

}  // namespace saccade
