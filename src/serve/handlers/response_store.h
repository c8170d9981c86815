// Responses of /v1/responses that clients may ask for again or go on from: in memory, under a cap
// of bytes, least recently used out first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/requests/response_request.h"

namespace saccade::serve {

struct StoredResponse {
  std::string body;                    // as it was answered
  std::vector<api::ItemText> history;  // the conversation, this response's items last
  std::uint64_t owner = 0;             // others do not see it
};

// Any thread. Texts that several responses of one conversation share are counted once.
class ResponseStore {
 public:
  explicit ResponseStore(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // A response that has no room by itself is not kept.
  void put(std::string id, StoredResponse response);
  // Null: never there, not the owner's, deleted or out of room. Counts as a use.
  std::shared_ptr<const StoredResponse> find(const std::string& id, std::uint64_t owner);
  bool remove(const std::string& id, std::uint64_t owner);

  std::size_t bytes() const;
  std::size_t size() const;
  std::size_t max_bytes() const { return max_bytes_; }

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const StoredResponse> response;
  };
  using Entries = std::list<Entry>;  // most recently used first

  void count(const Entry& entry);
  void drop(Entries::iterator entry);

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_id_;
  std::unordered_map<const std::string*, std::size_t> users_;  // of each text
  std::size_t bytes_ = 0;
};

}  // namespace saccade::serve
