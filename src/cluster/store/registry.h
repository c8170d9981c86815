// Who is there: this process says so again and again for as long as it lives, and hears of the
// others. A lease that is not renewed expires: nobody has to clean up after the dead.
//
//   saccade:nodes        a set of ids; a hint, pruned by whoever reads it
//   saccade:node:ID      the record of one boot of a process, for ten seconds
//
// Losing the store changes nothing: what was known stays known, and only what a working store says
// replaces it. On Clock and Timers alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cluster/store/node_record.h"
#include "cluster/store/store_link.h"
#include "cluster/timers.h"

namespace saccade::cluster {

struct RegistrySettings {
  std::string key;  // of the cluster; empty: none
  Nanos lease = 10 * kSecond;
  Nanos renew = 3 * kSecond;
  Nanos poll = kSecond;
  Nanos limit = 500 * kMillisecond;        // of one exchange with the store
  Nanos least_retry = 500 * kMillisecond;  // after a failure; doubled up to the most
  Nanos max_retry = 10 * kSecond;
  std::size_t max_nodes = 512;  // that are heard
};

struct RegistryStats {
  bool up = false;  // the last exchange went well
  std::uint64_t failures = 0;
  std::uint64_t renewals = 0;
  std::uint64_t refused_records = 0;  // that are none, or of somebody without the key
  std::vector<NodeRecord> nodes;      // others, as last heard
};

// One thread. The link outlives it.
class Registry {
 public:
  // All others that are there; after every poll that went well.
  using Heard = std::function<void(const std::vector<NodeRecord>&)>;
  Registry(const Clock& clock, Timers& timers, Rng& rng, StoreLink& link, RegistrySettings settings,
           Heard heard);
  ~Registry();

  void begin();
  // From now on others hear of this process; again when something of it has changed.
  void announce(NodeRecord record);
  // Others hear of it no more. `done`: the store has been told, or cannot be.
  void withdraw(std::function<void()> done);

  const RegistryStats& stats() const { return stats_; }

 private:
  void poll();
  void hear_ids(Result<std::vector<StoreReply>> replies, bool renewed);
  void hear_records(const std::vector<std::string>& ids, Result<std::vector<StoreReply>> replies);
  void went_well();
  void went_wrong(const std::string& why, const std::string& reason);
  void next(Nanos after);

  const Clock& clock_;
  Timers& timers_;
  Rng& rng_;
  StoreLink& link_;
  const RegistrySettings settings_;
  const Heard heard_;
  std::optional<NodeRecord> self_;
  Nanos renew_at_ = 0;
  Nanos retry_ = 0;
  TimerId timer_ = 0;
  bool said_ = false;  // that it does not work
  RegistryStats stats_;
};

std::string node_key(const std::string& id);

}  // namespace saccade::cluster
