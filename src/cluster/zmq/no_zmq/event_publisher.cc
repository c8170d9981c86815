#include "cluster/zmq/event_publisher.h"

namespace saccade::cluster {

Result<std::unique_ptr<EventPublisher>> EventPublisher::create(const CacheEventSettings&) {
  return fail(ErrorCode::kUnsupported,
              "--kv-events-config: this build has no ZeroMQ (scripts/bootstrap --full "
              "installs libzmq3-dev and cppzmq-dev)");
}

}  // namespace saccade::cluster
