// Image embeddings by content, accounted in bytes: an LRU over pages of one arena. The store deals
// in page numbers; the engine owns the arena and copies rows in and out. Pages are equal, so there
// is no fragmentation, and an entry fits whenever enough of the others may go.
//
// An entry is filled by one writer and then read under leases; leased entries are never evicted.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace saccade {

// Names one embedding: SHA-256 over the image's bytes, everything that decides its size and
// processing (ImageLayout::key) and the tower (ModelShape::tower_fingerprint).
Digest embedding_key(const Digest& content, std::string_view layout_key, std::string_view tower);

using EmbeddingPage = std::int32_t;

// One thread.
class EmbeddingStore {
 public:
  EmbeddingStore(std::int64_t capacity_bytes, std::int64_t page_bytes);

  // Room for `bytes`, evicting unleased entries, oldest first. False: not while so much is leased.
  // The entry is absent before; it is made filling, with one lease.
  bool insert(const Digest& key, std::int64_t bytes);
  void set_ready(const Digest& key);

  bool contains(const Digest& key) const { return entries_.contains(key); }
  bool ready(const Digest& key) const;
  std::span<const EmbeddingPage> pages(const Digest& key) const;  // of an entry that is there

  void lease(const Digest& key);    // of an entry that is there; also touches it
  void release(const Digest& key);  // the last lease gone: evictable, most recently used
  void erase(const Digest& key);    // unleased: now; leased: with the last lease
  void clear();                     // as erase, for all

  // Whether `bytes` could ever fit.
  bool holds(std::int64_t bytes) const { return pages_for(bytes) <= pages_; }
  std::int64_t pages_for(std::int64_t bytes) const {
    return (bytes + page_bytes_ - 1) / page_bytes_;
  }
  // Bytes that insert could take now.
  std::int64_t available_bytes() const;
  std::int64_t capacity_bytes() const { return capacity_bytes_; }
  std::int64_t page_bytes() const { return page_bytes_; }
  std::int64_t leased_bytes() const { return leased_pages_ * page_bytes_; }
  std::int64_t cached_bytes() const { return cached_pages_ * page_bytes_; }
  std::int64_t used_bytes() const { return used_bytes_; }  // as asked for, by leased entries
  std::int64_t entries() const { return static_cast<std::int64_t>(entries_.size()); }
  std::uint64_t evictions() const { return evictions_; }
  void check() const;

 private:
  struct Entry {
    std::vector<EmbeddingPage> pages;
    std::int64_t bytes = 0;
    int leases = 0;
    bool ready = false;
    bool doomed = false;                // erase with the last lease
    std::list<Digest>::iterator place;  // in lru_, while unleased
  };
  using Entries = std::unordered_map<Digest, Entry, DigestHash>;
  void remove(Entries::iterator entry);
  std::int64_t free_pages() const;

  std::int64_t capacity_bytes_;
  std::int64_t page_bytes_;
  std::int64_t pages_;
  std::int64_t touched_ = 0;         // pages below it have been an entry's
  std::vector<EmbeddingPage> free_;  // of those
  Entries entries_;
  std::list<Digest> lru_;  // unleased, oldest first
  std::int64_t leased_pages_ = 0;
  std::int64_t cached_pages_ = 0;
  std::int64_t used_bytes_ = 0;
  std::uint64_t evictions_ = 0;
};

}  // namespace saccade
