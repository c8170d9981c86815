#include "engine/admission/fair_queue.h"

#include <algorithm>

#include "base/check.h"

namespace saccade {
namespace {

// Clients that are remembered while they have nothing to do.
constexpr std::size_t kMaxClients = 4096;

}  // namespace

std::int64_t FairQueue::share() const {
  return std::max<std::int64_t>(1, places_ / std::max<std::int64_t>(1, active_));
}

void FairQueue::add(Sequence& sequence) {
  Client& client = clients_[client_of(sequence)];
  if (!client.active()) {
    client.served = std::max(client.served, turn_at_);
    ++active_;
  }
  CHECK(client.waiting.insert(&sequence).second, "request {} is queued already",
        sequence.request.id);
  ++waiting_;
  if (clients_.size() > kMaxClients) forget_idle();
}

void FairQueue::start(Sequence& sequence) {
  Client& client = clients_.at(client_of(sequence));
  CHECK(client.waiting.erase(&sequence) == 1, "request {} does not wait", sequence.request.id);
  --waiting_;
  ++client.running;
  turn_at_ = std::max(turn_at_, client.served);
}

void FairQueue::send_back(Sequence& sequence) {
  Client& client = clients_.at(client_of(sequence));
  CHECK(client.waiting.insert(&sequence).second, "request {} waits already", sequence.request.id);
  ++waiting_;
  --client.running;
}

bool FairQueue::remove(Sequence& sequence) {
  Client& client = clients_.at(client_of(sequence));
  const bool waited = client.waiting.erase(&sequence) == 1;
  if (waited) {
    --waiting_;
  } else {
    CHECK(client.running > 0, "request {} is not here", sequence.request.id);
    --client.running;
  }
  if (!client.active()) --active_;
  return waited;
}

void FairQueue::charge(const Sequence& sequence, std::int64_t tokens) {
  clients_.at(client_of(sequence)).served += tokens;
}

std::int64_t FairQueue::running_of(ClientId client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second.running;
}

std::int64_t FairQueue::served(ClientId client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second.served;
}

std::unordered_map<ClientId, std::int64_t> FairQueue::waiting_by_client() const {
  std::unordered_map<ClientId, std::int64_t> counts;
  for (const auto& [id, client] : clients_) {
    if (!client.waiting.empty()) counts[id] = static_cast<std::int64_t>(client.waiting.size());
  }
  return counts;
}

std::vector<Sequence*> FairQueue::first(std::size_t most) const {
  // By what stands before each of its own client, then by rank.
  struct Place {
    std::size_t before;
    Sequence* sequence;
  };
  std::vector<Place> places;
  for (const auto& [id, client] : clients_) {
    std::size_t before = 0;
    for (Sequence* sequence : client.waiting) {
      if (before == most) break;
      places.push_back({before++, sequence});
    }
  }
  std::ranges::sort(places, [](const Place& a, const Place& b) {
    return a.before != b.before ? a.before < b.before : a.sequence->before(*b.sequence);
  });
  if (places.size() > most) places.resize(most);
  std::vector<Sequence*> found;
  for (const Place& place : places) found.push_back(place.sequence);
  return found;
}

// Those that are where the turn is, or behind it, are as good as new; the others are forgotten only
// when there are too many of them.
void FairQueue::forget_idle() {
  std::erase_if(clients_, [this](const auto& entry) {
    return !entry.second.active() && entry.second.served <= turn_at_;
  });
  if (clients_.size() <= 2 * kMaxClients) return;
  std::erase_if(clients_, [](const auto& entry) { return !entry.second.active(); });
}

// --- turns ---

bool FairQueue::Turns::Turn::operator<(const Turn& other) const {
  if (over_share != other.over_share) return over_share;
  if (served != other.served) return served > other.served;
  return other.sequence->before(*sequence);
}

FairQueue::Turns::Turns(FairQueue& queue) : queue_(queue) {
  for (const auto& [id, client] : queue_.clients_) offer(id, nullptr);
}

void FairQueue::Turns::offer(ClientId id, const Sequence* after) {
  const Client& client = queue_.clients_.at(id);
  const auto next = after == nullptr ? client.waiting.begin()
                                     : client.waiting.upper_bound(const_cast<Sequence*>(after));
  if (next == client.waiting.end()) return;
  turns_.push({client.running >= queue_.share(), client.served, *next, id});
}

Sequence* FairQueue::Turns::next() {
  // The client of the last offer has its next one considered by what it has been served since.
  if (last_ != nullptr) offer(queue_.client_of(*last_), last_);
  last_ = nullptr;
  if (turns_.empty()) return nullptr;
  last_ = turns_.top().sequence;
  turns_.pop();
  return last_;
}

}  // namespace saccade
