// What routers are told of a prefix cache, in the form that vLLM has for it: batches of
// BlockStored, BlockRemoved and AllBlocksCleared in MessagePack, each event a map
// (vllm/distributed/kv_events.py since its pull request 42892). How they travel is cluster/zmq's.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "memory/prefix/cache_observer.h"

namespace saccade::cluster {

// --kv-events-config, with vLLM's names and values.
struct CacheEventSettings {
  bool enabled = false;
  // Bound where it is a wildcard, loopback or ipc://, else connected to.
  std::string endpoint = "tcp://127.0.0.1:5557";
  std::string replay_endpoint;           // bound; empty: none
  std::size_t buffer_steps = 10'000;     // batches that can be replayed
  int high_water_mark = 100'000;         // batches to one slow subscriber, over it they are dropped
  std::size_t max_queue_size = 100'000;  // events that have not been sent
  std::string topic;
};
// {} and "" are off. kInvalid names the member and what it may be.
Result<CacheEventSettings> parse_cache_event_settings(std::string_view json);
bool is_bound(std::string_view endpoint);

struct CacheEvent {
  enum class Kind : std::uint8_t { kStored, kRemoved, kCleared };
  Kind kind = Kind::kCleared;
  int group = 0;
  CacheKind layers = CacheKind::kFull;
  std::int64_t window = 0;
  std::vector<std::uint64_t> names;  // of blocks, one after another in a prompt
  std::optional<std::uint64_t> parent;
  std::vector<std::int32_t> tokens;              // of all of them
  std::vector<std::vector<std::string>> images;  // [names] identities, in hex
  std::string lora_name;                         // empty: no adapter
  std::int64_t lora_id = 0;
};

// Collects on the engine's thread, is emptied on another.
class CacheEventLog final : public CacheObserver {
 public:
  // `wake` is called when there is something to take and was nothing; must not block.
  CacheEventLog(std::size_t max_events, std::function<void()> wake)
      : most_(max_events), wake_(std::move(wake)) {}

  void stored(const StoredBlock& block) override;
  void removed(int group, std::uint64_t name) override;
  void cleared() override;

  std::vector<CacheEvent> take();
  // Events that nobody took in time. All that is known is then forgotten by an AllBlocksCleared:
  // a router that knows too little is slow, one that believes too much is wrong.
  std::uint64_t dropped() const;

 private:
  template <typename Add>
  void change(Add add);
  // With mutex_ held: a place for one more.
  CacheEvent* next(CacheEvent::Kind kind);

  const std::size_t most_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::vector<CacheEvent> events_;  // guarded by mutex_
  std::uint64_t dropped_ = 0;       // likewise
};

// One batch. `time`: seconds since 1970.
std::string packed(const std::vector<CacheEvent>& events, double time);

}  // namespace saccade::cluster
