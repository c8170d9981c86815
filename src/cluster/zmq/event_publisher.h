// The events of a prefix cache over ZeroMQ, as vLLM's publisher sends them: PUB with three frames
// [topic][sequence, 8 bytes, big endian][batch], and a ROUTER that sends batches again from a
// sequence on, with 2^64 - 1 and nothing at their end. Only this library sees libzmq; where a build
// has none, create() says so.
#pragma once

#include <memory>

#include "cluster/events/cache_events.h"

namespace saccade::cluster {

class EventPublisher {
 public:
  // Binds or connects, and starts its thread. kUnavailable: an endpoint that cannot be had;
  // kUnsupported: a build without ZeroMQ.
  static Result<std::unique_ptr<EventPublisher>> create(const CacheEventSettings& settings);
  virtual ~EventPublisher() = default;
  // For the engine's settings. Outlived by the publisher.
  virtual CacheObserver& observer() = 0;
};

}  // namespace saccade::cluster
