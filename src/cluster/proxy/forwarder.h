// Requests from clients to servers and answers back: attempts, retries, accounting.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/byte_budget.h"
#include "cluster/proxy/pd_table.h"
#include "cluster/proxy/proxy.h"
#include "net/client/http_client.h"
#include "net/server/http_server.h"

namespace saccade::cluster {

// What the metrics page tells besides the table of servers.
struct ProxyCounters {
  std::uint64_t requests = 0;
  std::uint64_t answers[6] = {};  // by hundreds of the status
  std::uint64_t retries = 0;
  std::uint64_t retries_denied = 0;  // the budget was spent
  std::uint64_t cut = 0;             // answers that broke off behind their first byte
  std::uint64_t left = 0;            // clients that went away
  std::uint64_t no_server = 0;
  double added_seconds = 0;  // between a request's last byte and its way to a server
};

// Any thread. Outlives the HttpServer whose handler it is.
class Forwarder {
 public:
  static Result<std::unique_ptr<Forwarder>> create(const ProxySettings& settings);
  ~Forwarder();

  // Answers every request, at once or later.
  void handle(net::HttpRequest request, net::Responder responder);
  net::HttpAdmission admit(const net::HttpRequest& head, std::optional<std::uint64_t> length);
  // From now on new work is refused; what runs goes on.
  void start_draining() { draining_ = true; }
  // The time for what runs is over: whoever still waits is told.
  void end_answers();
  // Asks every server how it is; call it every probe_period.
  void probe();
  // All servers that a registry has: new ones get requests too, those that are neither there nor
  // answer are forgotten. Those of the settings stay.
  void found(const std::vector<std::string>& urls);
  // Of others, for the end of the metrics page. Before the first request.
  void add_metrics(std::function<std::string()> more) { more_metrics_ = std::move(more); }

 private:
  struct Exchange;
  using ExchangePtr = std::shared_ptr<Exchange>;
  struct Server {
    net::Url url;  // its path is put before every target
    std::string name;
    bool given = true;  // by the settings
  };
  using ServerPtr = std::shared_ptr<const Server>;

  Forwarder(const ProxySettings& settings, std::vector<ServerPtr> servers,
            std::vector<std::unique_ptr<net::HttpClient>> clients);
  bool named_as_host(const net::HttpRequest& request) const;
  void attempt(const ExchangePtr& exchange);
  net::ClientRequest request_for(const Exchange& exchange) const;
  void on_head(Exchange& exchange, const net::ClientResponse& so_far);
  bool on_bytes(Exchange& exchange, std::string_view bytes);
  void on_done(const ExchangePtr& exchange, net::ClientResponse response);
  // `sent`: a server may have begun with it. Who could not even be reached, or refuses it because
  // it ends, has not: the next one is asked whatever retries are left, each of them once.
  bool try_again(const ExchangePtr& exchange, bool sent);
  void broke_off(Exchange& exchange, const net::ClientResponse& response);
  void answer(Exchange& exchange, net::HttpResponse response);
  void refuse(Exchange& exchange, int status, std::string_view type, std::string_view message);
  net::HttpResponse health() const;
  net::HttpResponse metrics() const;

  const ProxySettings settings_;
  std::function<std::string()> more_metrics_;
  ByteBudget held_bytes_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> ended_{false};  // end_answers() has been called
  std::atomic<std::uint64_t> next_client_{0};
  mutable std::mutex mutex_;
  std::vector<ServerPtr> servers_;  // guarded by mutex_; as in table_
  PdTable table_;                   // guarded by mutex_
  RetryBudget retries_;             // guarded by mutex_
  ProxyCounters counters_;          // guarded by mutex_
  // Those that may be on their way, and how many they may become before the others are forgotten;
  // guarded by mutex_.
  std::vector<std::weak_ptr<Exchange>> running_;
  std::size_t max_running_ = 64;
  std::vector<std::unique_ptr<net::HttpClient>> clients_;  // last: their threads use all above
};

}  // namespace saccade::cluster
