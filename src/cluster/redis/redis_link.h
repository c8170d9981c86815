// The way to a Redis or Valkey: a thread that does one batch after another over one connection.
#pragma once

#include <memory>

#include "cluster/event_thread.h"
#include "cluster/store/store_address.h"
#include "cluster/store/store_link.h"

namespace saccade::cluster {

// Answers on `thread`. `clock`: CLOCK_MONOTONIC.
std::unique_ptr<StoreLink> make_redis_link(const StoreAddress& address, const Clock& clock,
                                           EventThread& thread);

}  // namespace saccade::cluster
