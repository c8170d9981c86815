// What a process has of the store that its cluster shares: its place in the registry, and the rows.
// One thread that decides; connections of their own for the registry, for searches and for
// publications. Nobody who calls it waits for the store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/event_thread.h"
#include "cluster/store/registry.h"
#include "cluster/store/row_finder.h"

namespace saccade::cluster {

struct SharedStoreSettings {
  RegistrySettings registry;
  std::optional<RowStoreSettings> rows;  // absent: no rows are shared
  std::uint64_t seed = 0;
};

struct SharedStoreStats {
  RegistryStats registry;
  std::optional<RowStoreStats> rows;
};

// Any thread.
class SharedStore final : public RowFinder {
 public:
  using MakeLink = std::function<std::unique_ptr<StoreLink>(EventThread& thread)>;
  SharedStore(const Clock& clock, const SharedStoreSettings& settings, const MakeLink& make_link);
  ~SharedStore() override;

  // --- registry ---
  // Called with all others that are there, on the store's thread, after every good poll; replaces
  // who listened before. Nobody is called any more when it returns for an empty one.
  void listen(Registry::Heard heard);
  void announce(NodeRecord record);
  // The lease ends now. Returns when the store has been told, or a second has passed.
  void withdraw();

  // --- rows ---
  bool has_rows() const { return rows_ != nullptr; }
  void find(const RowQuery& query, Nanos cost, RowStore::Found done) override;
  void wrong(const Digest& name, const std::string& maker) override;
  void publish(const Digest& name, std::int64_t count, std::span<const std::byte> rows,
               const Digest& digest, std::shared_ptr<const void> held);

  SharedStoreStats stats();
  // Nothing is called any more after it.
  void stop();

 private:
  bool stopped_ = false;
  Rng rng_;
  Registry::Heard heard_;  // the thread's
  std::unique_ptr<EventThread> thread_;
  std::vector<std::unique_ptr<StoreLink>> links_;
  std::unique_ptr<Registry> registry_;  // the thread's
  std::unique_ptr<RowStore> rows_;      // the thread's
};

}  // namespace saccade::cluster
