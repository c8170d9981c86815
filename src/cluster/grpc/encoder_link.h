// The gRPC way to encoders: keeps a connection to each, and carries attempts and rows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/access.h"
#include "cluster/embedding_exchange.h"
#include "cluster/row_format.h"

namespace saccade::cluster {

struct GrpcLinkSettings {
  std::vector<std::string> encoders;
  Access access;
  Greeting self;
  RowFormat format;
  bool any_numerics = false;
  Nanos connect_time = 300 * kMillisecond;
  Nanos least_retry = 200 * kMillisecond;  // between two tries to connect, doubled up to the most
  Nanos max_retry = 3 * kSecond;
};

// Refused in a build without gRPC, which can make no link.
Result<void> check_grpc();

// Tells the exchange's table what it hears, on `thread`.
std::unique_ptr<RunningLink> make_grpc_link(const GrpcLinkSettings& settings, const Clock& clock,
                                            EventThread& thread, std::function<ItemTable&()> table);

}  // namespace saccade::cluster
