// A request that a process asks of its own handlers: the same Responder, and no connection.
#pragma once

#include <functional>
#include <memory>

#include "net/server/http_server.h"

namespace saccade::net {

// The asker's end; the Responder is the handler's. Any thread. An answer that comes in pieces is
// collected whole.
class LocalRequest {
 public:
  // Called once, on whichever thread completes the answer; with a 500 where the last Responder dies
  // without one. Not called after cancel().
  using Answered = std::function<void(HttpResponse)>;
  explicit LocalRequest(Answered answered);

  // Once.
  Responder responder() const;
  // The asker leaves: the answer's on_disconnect callback runs here, unless the answer is complete.
  void cancel();

 private:
  class State;
  class End;
  std::shared_ptr<State> state_;
};

}  // namespace saccade::net
