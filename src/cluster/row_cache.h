// Rows that have been made, by key: kept as long as there is room, the least recently used go
// first. Room is reserved before rows are made, so that what is being made, sent and kept never
// takes more than the limit.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/byte_budget.h"
#include "base/hash.h"
#include "cluster/messages.h"

namespace saccade::cluster {

// What an encoder has made.
struct MadeRows {
  std::vector<std::byte> bytes;
  Digest digest{};
  ByteReservation reserved;
};

// One thread; rows may be held by any.
class RowCache {
 public:
  explicit RowCache(std::size_t limit) : budget_(limit) {}

  std::shared_ptr<const MadeRows> find(const Digest& key);
  void insert(const Digest& key, std::shared_ptr<const MadeRows> rows);
  void erase(const Digest& key);
  // Room for rows to be made. Lets go of kept rows for it; those that are being sent stay. Absent:
  // not now.
  std::optional<ByteReservation> reserve(std::size_t bytes);

  std::size_t used_bytes() const { return budget_.used(); }
  std::size_t limit() const { return budget_.limit(); }

 private:
  struct Entry {
    std::shared_ptr<const MadeRows> rows;
    std::list<Digest>::iterator place;
  };
  ByteBudget budget_;
  std::unordered_map<Digest, Entry, DigestHash> entries_;
  std::list<Digest> order_;  // least recently used first
};

}  // namespace saccade::cluster
