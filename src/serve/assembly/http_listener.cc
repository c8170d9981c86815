#include "serve/assembly/http_listener.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"
#include "net/shown_host.h"
#include "serve/assembly/early_checks.h"

namespace saccade::serve {
namespace {

// From the last answer, or the end of the time for answers, to the end of the process: for workers
// on what nobody waits for.
constexpr std::chrono::seconds kEndTime{5};
// For those whose answers are cut to be told so, and again for it to reach them.
constexpr std::chrono::milliseconds kTellTime{1000};

// --root-path: proxies that serve several programs pass the prefix on, or take it off.
void strip_root(std::string_view root, net::HttpRequest& request) {
  if (!root.empty() && request.path.starts_with(root) && request.path.size() > root.size() &&
      request.path[root.size()] == '/')
    request.path.erase(0, root.size());
}

std::size_t unfinished(std::span<Drainable* const> what) {
  std::size_t all = 0;
  for (Drainable* each : what) all += each->unfinished();
  return all;
}

void wait_until_idle(std::span<Drainable* const> what, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (unfinished(what) > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

Result<std::unique_ptr<HttpListener>> HttpListener::listen(const ServeSettings& settings,
                                                           Router& router,
                                                           const EndSignals& signals) {
  std::unique_ptr<HttpListener> listener(new HttpListener(settings, router, signals));
  TRY(listener->http_, net::HttpServer::listen(
                           http_settings(settings),
                           [&](net::HttpRequest request, net::Responder responder) {
                             strip_root(settings.root_path, request);
                             router.handle(std::move(request), std::move(responder));
                           },
                           [&](const net::HttpRequest& head, std::optional<std::uint64_t> length) {
                             if (settings.root_path.empty()) return router.admit(head, length);
                             net::HttpRequest below = head;
                             strip_root(settings.root_path, below);
                             return router.admit(below, length);
                           }));
  signals.ready();
  const char* const scheme = settings.tls_certificate.empty() ? "http" : "https";
  if (settings.host.starts_with('/'))
    log::info("listening on {}, a Unix socket ({})", settings.host, scheme);
  else
    log::info("listening on {}://{}:{}", scheme, net::shown_host(settings.host),
              listener->http_->port());
  log::info("Application startup complete.");
  return listener;
}

void HttpListener::serve_until_signal(std::span<Drainable* const> what, ClusterStore* store) {
  signals_.wait();
  if (store != nullptr) store->withdraw();  // who asks next is sent elsewhere
  drain(what);
}

void HttpListener::drain(std::span<Drainable* const> what) {
  const std::chrono::seconds limit = settings_.drain_time;
  router_.start_draining();
  for (Drainable* each : what) each->start_draining();
  log::info("shutting down: {} answers are running, {} s for them to end", unfinished(what),
            limit.count());
  http_->drain(limit);
  if (std::ranges::any_of(what, [](Drainable* each) { return each->waits_beyond_http(); }))
    wait_until_idle(what, limit);
  EndSignals::end_within(kEndTime);  // telling those that are cut is a part of it
  if (unfinished(what) == 0) return;
  log::warning("{} answers were cut", unfinished(what));
  bool told = false;
  for (Drainable* each : what) told = each->end_answers() || told;
  if (!told) return;
  wait_until_idle(what, kTellTime);
  http_->drain(kTellTime);
}

}  // namespace saccade::serve
