#include "cluster/proxy/proxy.h"

#include <memory>

#include "api/pages/error_table.h"
#include "base/log.h"
#include "base/threads/end_signals.h"
#include "cluster/access.h"
#include "cluster/event_thread.h"
#include "cluster/proxy/forwarder.h"
#include "cluster/redis/redis_link.h"
#include "cluster/store/shared_store.h"
#include "net/server/http_server.h"
#include "net/shown_host.h"

namespace saccade::cluster {
namespace {

// From the last answer, or the end of the time for answers, to the end of the process.
constexpr std::chrono::seconds kEndTime{5};

constexpr std::chrono::milliseconds kTellTime{1000};  // for those whose answers are cut

// The servers, now and every period, on a thread that does nothing else.
void probe_again_and_again(EventThread& thread, Forwarder& forwarder, const Clock& clock,
                           Nanos period) {
  forwarder.probe();
  thread.timers().start(clock.now() + period, [&thread, &forwarder, &clock, period] {
    probe_again_and_again(thread, forwarder, clock, period);
  });
}

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

// As the page of a server has them.
std::string registry_metrics(SharedStore& store) {
  const RegistryStats stats = store.stats().registry;
  return fmt::format(
      "# HELP saccade:registry_up 1 while the registry answers.\n"
      "# TYPE saccade:registry_up gauge\nsaccade:registry_up {}\n"
      "# HELP saccade:registry_nodes Other processes in the registry.\n"
      "# TYPE saccade:registry_nodes gauge\nsaccade:registry_nodes {}\n"
      "# HELP saccade:registry_failures_total Failed requests to the registry.\n"
      "# TYPE saccade:registry_failures_total counter\nsaccade:registry_failures_total {}\n"
      "# HELP saccade:registry_refused_records_total Registry records ignored: malformed, or not "
      "signed with the cluster's key.\n"
      "# TYPE saccade:registry_refused_records_total counter\n"
      "saccade:registry_refused_records_total {}\n",
      stats.up ? 1 : 0, stats.nodes.size(), stats.failures, stats.refused_records);
}

Result<std::unique_ptr<SharedStore>> make_store(const ProxySettings& settings, const Clock& clock) {
  if (settings.registry.empty()) return nullptr;
  TRY(const StoreAddress address,
      read_store_address(settings.registry, settings.registry_password_file));
  SharedStoreSettings store;
  TRY(store.registry.key, read_cluster_key(settings.cluster_key_file));
  store.seed = static_cast<std::uint64_t>(clock.now());
  log::info("servers are found at {}", address.display());
  return std::make_unique<SharedStore>(
      clock, store, [&](EventThread& thread) { return make_redis_link(address, clock, thread); });
}

std::vector<std::string> urls_of(const std::vector<NodeRecord>& nodes) {
  std::vector<std::string> urls;
  for (const NodeRecord& node : nodes) {
    if (!node.url.empty()) urls.push_back(node.url);
  }
  return urls;
}

}  // namespace

Result<void> run_proxy(const ProxySettings& settings) {
  const EndSignals signals;
  const SteadyClock clock;
  TRY(const std::unique_ptr<Forwarder> forwarder, Forwarder::create(settings));
  TRY(const std::unique_ptr<SharedStore> store, make_store(settings, clock));
  if (store) forwarder->add_metrics([&] { return registry_metrics(*store); });
  TRY(const std::unique_ptr<net::HttpServer> server,
      net::HttpServer::listen(
          server_settings(settings),
          [&](net::HttpRequest request, net::Responder responder) {
            forwarder->handle(std::move(request), std::move(responder));
          },
          [&](const net::HttpRequest& head, std::optional<std::uint64_t> length) {
            return forwarder->admit(head, length);
          }));
  EventThread prober(clock);
  prober.post([&] { probe_again_and_again(prober, *forwarder, clock, settings.probe_period); });
  if (store)
    store->listen([&](const std::vector<NodeRecord>& nodes) { forwarder->found(urls_of(nodes)); });
  signals.ready();
  log::info("listening on {}://{}:{} for {} servers",
            settings.tls_certificate.empty() ? "http" : "https", net::shown_host(settings.host),
            server->port(), settings.pds.size());
  log::info("Application startup complete.");

  signals.wait();
  forwarder->start_draining();
  log::info("shutting down: {} connections are open, {} s for their answers to end",
            server->open_connections(), settings.drain_time.count());
  server->drain(settings.drain_time);
  EndSignals::end_within(kEndTime);  // telling those that are cut is a part of it
  forwarder->end_answers();
  server->drain(kTellTime);
  if (store) store->stop();
  return {};
}

}  // namespace saccade::cluster
