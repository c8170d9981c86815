#include "cluster/row_cache.h"

#include <utility>

namespace saccade::cluster {

std::shared_ptr<const MadeRows> RowCache::find(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  order_.splice(order_.end(), order_, found->second.place);
  return found->second.rows;
}

void RowCache::insert(const Digest& key, std::shared_ptr<const MadeRows> rows) {
  erase(key);
  entries_[key] = {std::move(rows), order_.insert(order_.end(), key)};
}

void RowCache::erase(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  order_.erase(found->second.place);
  entries_.erase(found);
}

std::optional<ByteReservation> RowCache::reserve(std::size_t bytes) {
  if (bytes > budget_.limit()) return std::nullopt;
  auto room = budget_.reserve(bytes);
  for (auto at = order_.begin(); !room && at != order_.end(); room = budget_.reserve(bytes)) {
    const Digest key = *at++;
    if (entries_.at(key).rows.use_count() == 1) erase(key);
  }
  return room;
}

}  // namespace saccade::cluster
