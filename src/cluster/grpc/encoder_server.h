// An encoder's side of the gRPC transport: listens, and turns calls into the desk's orders.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/access.h"
#include "cluster/encoder_desk.h"
#include "cluster/event_thread.h"

namespace saccade::cluster {

struct EncoderServerSettings {
  std::vector<std::string> addresses;  // "HOST:PORT", "unix:PATH"
  Access access;
  Greeting self;
  std::size_t max_calls = 4096;  // open at once, of all requesters; over it a call is refused
};

// A desk answers to it; the desk lives on `thread`, and is made before listen().
class EncoderServer : public RequesterLink {
 public:
  // Errors name the address. kDenied for one that others reach, without key and TLS.
  static Result<std::unique_ptr<EncoderServer>> create(const EncoderServerSettings& settings,
                                                       EventThread& thread);
  virtual Result<void> listen(EncoderDesk& desk) = 0;
  // Ends: open calls get `limit` to finish. Nothing is posted after it.
  virtual void stop(Nanos limit) = 0;
  // As listened on, with the port that was taken for 0.
  virtual std::vector<std::string> addresses() const = 0;
};

}  // namespace saccade::cluster
