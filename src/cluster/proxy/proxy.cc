#include "cluster/proxy/proxy.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "api/error_table.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "cluster/proxy/forwarder.h"
#include "net/http_server.h"

namespace saccade::cluster {
namespace {

// Probes every period, from construction to destruction.
class Prober {
 public:
  Prober(Forwarder& forwarder, Nanos period)
      : forwarder_(forwarder), period_(period), thread_([this] { run(); }) {}
  ~Prober() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    do {
      forwarder_.probe();
    } while (
        !wake_.wait_for(lock, std::chrono::nanoseconds(period_), [this] { return stopping_; }));
  }

  Forwarder& forwarder_;
  const Nanos period_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: it uses everything above
};

net::HttpServerSettings server_settings(const ProxySettings& settings) {
  net::HttpServerSettings http;
  http.host = settings.host;
  http.port = settings.port;
  http.io_threads = settings.io_threads;
  http.max_body_bytes = settings.max_body_bytes;
  http.tls_certificate = settings.tls_certificate;
  http.tls_key = settings.tls_key;
  http.error_body = [](int status, std::string_view message) {
    return api::error_body(status, message);
  };
  return http;
}

}  // namespace

Result<void> run_proxy(const ProxySettings& settings) {
  const EndSignals signals;
  TRY(const std::unique_ptr<Forwarder> forwarder, Forwarder::create(settings));
  TRY(const std::unique_ptr<net::HttpServer> server,
      net::HttpServer::listen(
          server_settings(settings),
          [&](net::HttpRequest request, net::Responder responder) {
            forwarder->handle(std::move(request), std::move(responder));
          },
          [&](const net::HttpRequest& head, std::optional<std::uint64_t> length) {
            return forwarder->admit(head, length);
          }));
  const Prober prober(*forwarder, settings.probe_period);
  log::info("listening on {}://{}:{} for {} servers",
            settings.tls_certificate.empty() ? "http" : "https", settings.host, server->port(),
            settings.pds.size());
  log::info("Application startup complete.");

  signals.wait();
  forwarder->start_draining();
  log::info("shutting down: {} connections are open, {} s for their answers to end",
            server->open_connections(), settings.drain_time.count());
  server->drain(settings.drain_time);
  return {};
}

}  // namespace saccade::cluster
