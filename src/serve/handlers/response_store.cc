#include "serve/handlers/response_store.h"

#include <utility>

namespace saccade::serve {
namespace {

constexpr std::size_t kOfEntry = 512;  // bytes: tables, ids, the allocator's own
constexpr std::size_t kOfText = 128;

std::size_t own_bytes(const StoredResponse& response) {
  return kOfEntry + response.body.size() + response.history.size() * sizeof(api::ItemText);
}

}  // namespace

void ResponseStore::count(const Entry& entry) {
  bytes_ += own_bytes(*entry.response);
  for (const api::ItemText& text : entry.response->history) {
    if (++users_[text.get()] == 1) bytes_ += kOfText + text->size();
  }
}

void ResponseStore::drop(Entries::iterator entry) {
  bytes_ -= own_bytes(*entry->response);
  for (const api::ItemText& text : entry->response->history) {
    const auto users = users_.find(text.get());
    if (--users->second > 0) continue;
    users_.erase(users);
    bytes_ -= kOfText + text->size();
  }
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

void ResponseStore::put(std::string id, StoredResponse response) {
  auto kept = std::make_shared<const StoredResponse>(std::move(response));
  std::size_t alone = own_bytes(*kept);
  for (const api::ItemText& text : kept->history) alone += kOfText + text->size();
  if (alone > max_bytes_) return;
  const std::lock_guard lock(mutex_);
  if (const auto old = by_id_.find(id); old != by_id_.end()) drop(old->second);
  entries_.push_front({id, std::move(kept)});
  by_id_.emplace(std::move(id), entries_.begin());
  count(entries_.front());
  while (bytes_ > max_bytes_) drop(std::prev(entries_.end()));
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id,
                                                          std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->response->owner != owner) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->response;
}

bool ResponseStore::remove(const std::string& id, std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->response->owner != owner) return false;
  drop(found->second);
  return true;
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace saccade::serve
