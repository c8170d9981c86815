#include "memory/embedding_store.h"

#include <algorithm>

#include "base/check.h"

namespace saccade {

Digest embedding_key(const Digest& content, std::string_view layout_key, std::string_view tower) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(content)));
  // Lengths first, so that no two pairs of strings run together to the same bytes.
  const std::uint64_t lengths[] = {layout_key.size(), tower.size()};
  hash.update(std::as_bytes(std::span(lengths)));
  hash.update(layout_key);
  hash.update(tower);
  return hash.finish();
}

EmbeddingStore::EmbeddingStore(std::int64_t capacity_bytes, std::int64_t page_bytes)
    : capacity_bytes_(capacity_bytes),
      page_bytes_(page_bytes),
      pages_(capacity_bytes / page_bytes) {
  CHECK(page_bytes > 0 && capacity_bytes >= 0, "{} bytes in pages of {}", capacity_bytes,
        page_bytes);
}

std::int64_t EmbeddingStore::free_pages() const {
  return static_cast<std::int64_t>(free_.size()) + pages_ - touched_;
}

std::int64_t EmbeddingStore::available_bytes() const {
  return (free_pages() + cached_pages_) * page_bytes_;
}

bool EmbeddingStore::insert(const Digest& key, std::int64_t bytes) {
  CHECK(!contains(key), "{} is there already", to_hex(key));
  const std::int64_t wanted = pages_for(bytes);
  if (wanted > free_pages() + cached_pages_) return false;
  while (free_pages() < wanted) {
    remove(entries_.find(lru_.front()));
    ++evictions_;
  }
  Entry& entry = entries_[key];
  entry.bytes = bytes;
  entry.leases = 1;
  const std::int64_t again = std::min(wanted, static_cast<std::int64_t>(free_.size()));
  entry.pages.assign(free_.end() - again, free_.end());
  free_.resize(free_.size() - static_cast<std::size_t>(again));
  while (static_cast<std::int64_t>(entry.pages.size()) < wanted)
    entry.pages.push_back(static_cast<EmbeddingPage>(touched_++));
  leased_pages_ += wanted;
  used_bytes_ += bytes;
  return true;
}

void EmbeddingStore::remove(Entries::iterator entry) {
  Entry& gone = entry->second;
  CHECK(gone.leases == 0, "{} is leased", to_hex(entry->first));
  free_.insert(free_.end(), gone.pages.begin(), gone.pages.end());
  cached_pages_ -= static_cast<std::int64_t>(gone.pages.size());
  lru_.erase(gone.place);
  entries_.erase(entry);
}

void EmbeddingStore::set_ready(const Digest& key) { entries_.at(key).ready = true; }

bool EmbeddingStore::ready(const Digest& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.ready;
}

std::span<const EmbeddingPage> EmbeddingStore::pages(const Digest& key) const {
  return entries_.at(key).pages;
}

void EmbeddingStore::lease(const Digest& key) {
  Entry& entry = entries_.at(key);
  if (entry.leases++ > 0) return;
  const auto pages = static_cast<std::int64_t>(entry.pages.size());
  lru_.erase(entry.place);
  cached_pages_ -= pages;
  leased_pages_ += pages;
  used_bytes_ += entry.bytes;
}

void EmbeddingStore::release(const Digest& key) {
  const auto found = entries_.find(key);
  CHECK(found != entries_.end() && found->second.leases > 0, "{} is not leased", to_hex(key));
  Entry& entry = found->second;
  if (--entry.leases > 0) return;
  const auto pages = static_cast<std::int64_t>(entry.pages.size());
  entry.place = lru_.insert(lru_.end(), key);
  leased_pages_ -= pages;
  cached_pages_ += pages;
  used_bytes_ -= entry.bytes;
  // Whoever was filling it has given up, or it was to go.
  if (entry.doomed || !entry.ready) remove(found);
}

void EmbeddingStore::erase(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  found->second.doomed = true;
  if (found->second.leases == 0) remove(found);
}

void EmbeddingStore::clear() {
  while (!lru_.empty()) remove(entries_.find(lru_.front()));
  for (auto& [key, entry] : entries_) entry.doomed = true;
}

void EmbeddingStore::check() const {
  std::vector<std::uint8_t> owned(static_cast<std::size_t>(touched_));
  std::int64_t leased = 0;
  std::int64_t cached = 0;
  std::int64_t used = 0;
  const auto own = [&](EmbeddingPage page) {
    CHECK(page >= 0 && page < touched_, "page {} of {} that were begun", page, touched_);
    CHECK(owned[static_cast<std::size_t>(page)]++ == 0, "page {} has two owners", page);
  };
  for (const EmbeddingPage page : free_) own(page);
  for (const auto& [key, entry] : entries_) {
    for (const EmbeddingPage page : entry.pages) own(page);
    (entry.leases > 0 ? leased : cached) += static_cast<std::int64_t>(entry.pages.size());
    if (entry.leases > 0) used += entry.bytes;
  }
  CHECK(leased == leased_pages_ && cached == cached_pages_ && used == used_bytes_,
        "{} leased, {} cached pages, {} bytes used; counted {}, {}, {}", leased_pages_,
        cached_pages_, used_bytes_, leased, cached, used);
  CHECK(free_pages() + leased + cached == pages_, "{} pages of {}", free_pages() + leased + cached,
        pages_);
}

}  // namespace saccade
