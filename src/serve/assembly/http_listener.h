// The part of a server that is the same for every model: HTTP in front of a router, and how it
// stops taking requests.
#pragma once

#include <memory>
#include <span>

#include "base/threads/end_signals.h"
#include "net/server/http_server.h"
#include "serve/assembly/cluster_store.h"
#include "serve/assembly/drainable.h"
#include "serve/router.h"
#include "serve/settings.h"

namespace saccade::serve {

class HttpListener {
 public:
  // Listens, and says so in the log. All of these outlive it.
  static Result<std::unique_ptr<HttpListener>> listen(const ServeSettings& settings, Router& router,
                                                      const EndSignals& signals);

  std::uint16_t port() const { return http_->port(); }

  // Returns when the process is to end and what runs has ended, or its time is up. `store`: of the
  // cluster; null: there is none.
  void serve_until_signal(std::span<Drainable* const> what, ClusterStore* store);

 private:
  HttpListener(const ServeSettings& settings, Router& router, const EndSignals& signals)
      : settings_(settings), router_(router), signals_(signals) {}
  void drain(std::span<Drainable* const> what);

  const ServeSettings& settings_;
  Router& router_;
  const EndSignals& signals_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace saccade::serve
