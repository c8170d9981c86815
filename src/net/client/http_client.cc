// The pool: one thread, its connections by origin, their deadlines.
#include "net/client/http_client.h"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <limits>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "net/client/client_connection.h"
#include "net/client/proxy_choice.h"
#include "net/server/descriptor_limit.h"
#include "net/shown_host.h"

namespace saccade::net {
namespace {

constexpr std::size_t kReadBuffer = 256u << 10;
constexpr Nanos kAddressesKept = 60 * kSecond;

// A host that we talk to.
struct Peer {
  Origin origin;
  std::shared_ptr<const Addresses> addresses;
  Nanos resolved_at = 0;
  std::vector<ClientConnection*> idle;     // the last used first
  std::vector<ClientExchangePtr> waiting;  // for the look-up of the name
  bool resolving = false;
  std::string unusable;  // why its proxy cannot be used; empty: there is none, or it can
  // What is connected to.
  const std::string& host() const { return origin.proxy ? origin.proxy->host : origin.host; }
  std::uint16_t port() const { return origin.proxy ? origin.proxy->port : origin.port; }
};

class PooledClient final : public HttpClient, private ConnectionOwner {
 public:
  PooledClient(const HttpClientSettings& settings, std::unique_ptr<EventLoop> loop,
               std::shared_ptr<TlsClientContext> tls)
      : settings_(settings),
        loop_(std::move(loop)),
        tls_(std::move(tls)),
        read_buffer_(kReadBuffer),
        plain_{*loop_,
               *this,
               nullptr,
               read_buffer_,
               counters_,
               settings.fresh_connections,
               settings.max_body_bytes},
        secure_{*loop_,
                *this,
                tls_,
                read_buffer_,
                counters_,
                settings.fresh_connections,
                settings.max_body_bytes} {
    thread_ = std::thread([this] { loop_->run(); });
  }

  ~PooledClient() override {
    loop_->post([this] {
      closing_ = true;
      cancel_all();
      loop_->stop();
    });
    thread_.join();
  }

  Result<ClientResponse> send(ClientRequest request) override {
    CHECK(!loop_->on_loop_thread(), "send() would wait for itself");
    std::promise<ClientResponse> promise;
    ClientHandlers handlers;
    handlers.on_done = [&](ClientResponse response) { promise.set_value(std::move(response)); };
    start(std::move(request), std::move(handlers));
    ClientResponse response = promise.get_future().get();
    if (response.failure != ClientFailure::kNone) {
      return saccade::fail(Error{error_code_of(response.failure), std::move(response.error), {}});
    }
    return response;
  }

  RequestId start(ClientRequest request, ClientHandlers handlers) override {
    auto exchange = std::make_unique<ClientExchange>();
    exchange->id = next_id_.fetch_add(1, std::memory_order_relaxed);
    exchange->request = std::move(request);
    exchange->handlers = std::move(handlers);
    const RequestId id = exchange->id;
    if (loop_->on_loop_thread()) {
      begin(std::move(exchange));
    } else {
      // std::function wants a copyable task.
      auto shared = std::make_shared<ClientExchangePtr>(std::move(exchange));
      loop_->post([this, shared] { begin(std::move(*shared)); });
    }
    return id;
  }

  void cancel(RequestId request) override {
    // In a later turn also on the loop's thread: the call may come out of this request's callback.
    loop_->post([this, request] { cancel_one(request); });
  }

  void at(Nanos when, std::function<void()> task) override {
    if (loop_->on_loop_thread()) {
      loop_->at(when, std::move(task), EventLoop::Precision::kSpin);
    } else {
      loop_->post([this, when, task = std::move(task)] {
        loop_->at(when, task, EventLoop::Precision::kSpin);
      });
    }
  }

  void post(std::function<void()> task) override { loop_->post(std::move(task)); }

  ClientCounters counters() const override {
    std::promise<ClientCounters> promise;
    const auto read = [&] {
      ClientCounters counters = counters_;
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      counters.cpu_time = time.tv_sec * kSecond + time.tv_nsec;
      promise.set_value(counters);
    };
    if (loop_->on_loop_thread()) {
      read();
    } else {
      loop_->post(read);
    }
    return promise.get_future().get();
  }

 private:
  void begin(ClientExchangePtr exchange) {
    const Nanos now = steady_now();
    exchange->response.times.start = now;
    set_connect_deadline(*exchange, now);
    if (closing_)
      return fail(std::move(exchange), ClientFailure::kCancelled, "the client has ended");
    Peer& peer = peer_of(exchange->request.url);
    if (!peer.idle.empty() && !settings_.fresh_connections) {
      ClientConnection* const connection = peer.idle.back();
      peer.idle.pop_back();
      return connection->begin(std::move(exchange));
    }
    open(peer, std::move(exchange));
  }

  void set_connect_deadline(ClientExchange& exchange, Nanos now) const {
    const Nanos deadline = exchange.request.deadline;
    exchange.connect_deadline = now + settings_.connect_timeout;
    if (deadline != 0) exchange.connect_deadline = std::min(exchange.connect_deadline, deadline);
  }

  void open(Peer& peer, ClientExchangePtr exchange) {
    if (connections_.size() + peer.waiting.size() >= settings_.max_connections) {
      return fail(std::move(exchange), ClientFailure::kConnect,
                  fmt::format("over {} connections", settings_.max_connections));
    }
    if (!peer.unusable.empty())
      return fail(std::move(exchange), ClientFailure::kConnect, peer.unusable);
    if (peer.addresses == nullptr || steady_now() - peer.resolved_at > kAddressesKept) {
      return look_up(peer, std::move(exchange));
    }
    ConnectionResources& resources = peer.origin.scheme == "https" ? secure_ : plain_;
    auto made = std::make_unique<ClientConnection>(resources, peer.origin, peer.addresses);
    ClientConnection& connection = *made;
    connections_.emplace(&connection, std::move(made));
    connection.connect(std::move(exchange));
  }

  void look_up(Peer& peer, ClientExchangePtr exchange) {
    if (auto known = known_addresses(peer.host(), peer.port())) {
      peer.addresses = std::move(known);
      peer.resolved_at = std::numeric_limits<Nanos>::max() / 2;  // for good
      return open(peer, std::move(exchange));
    }
    const RequestId id = exchange->id;
    loop_->at(exchange->connect_deadline, [this, &peer, id] {
      fail_waiting(peer, id, ClientFailure::kTimeout, "the name was not resolved in time");
    });
    peer.waiting.push_back(std::move(exchange));
    if (peer.resolving) return;
    peer.resolving = true;
    resolve(peer.host(), peer.port(), loop_->mailbox(),
            [this, &peer](const Result<std::shared_ptr<const Addresses>>& found) {
              resolved(peer, found);
            });
  }

  void resolved(Peer& peer, const Result<std::shared_ptr<const Addresses>>& found) {
    peer.resolving = false;
    std::vector<ClientExchangePtr> waiting;
    waiting.swap(peer.waiting);
    if (found) {
      peer.addresses = *found;
      peer.resolved_at = steady_now();
    }
    for (ClientExchangePtr& exchange : waiting) {
      if (found) {
        open(peer, std::move(exchange));
      } else {
        fail(std::move(exchange), ClientFailure::kConnect, found.error().message);
      }
    }
  }

  void fail_waiting(Peer& peer, RequestId id, ClientFailure failure, std::string why) {
    const auto found = std::find_if(peer.waiting.begin(), peer.waiting.end(),
                                    [&](const ClientExchangePtr& e) { return e->id == id; });
    if (found == peer.waiting.end()) return;
    ClientExchangePtr exchange = std::move(*found);
    peer.waiting.erase(found);
    fail(std::move(exchange), failure, std::move(why));
  }

  void fail(ClientExchangePtr exchange, ClientFailure failure, std::string why) {
    exchange->response.failure = failure;
    exchange->response.error = std::move(why);
    exchange->response.times.end = steady_now();
    ended(std::move(exchange));
  }

  void cancel_one(RequestId id) {
    for (const auto& [key, connection] : connections_) {
      if (connection->exchange() != nullptr && connection->exchange()->id == id) {
        return connection->cancel();
      }
    }
    for (const auto& peer : peers_) fail_waiting(*peer, id, ClientFailure::kCancelled, "cancelled");
  }

  // The end of the client: everything is told now, as no turn comes after this one.
  void cancel_all() {
    std::vector<ClientConnection*> busy;
    for (const auto& [key, connection] : connections_) {
      if (connection->exchange() != nullptr) busy.push_back(key);
    }
    for (ClientConnection* connection : busy) connection->cancel();
    for (const auto& peer : peers_) {
      while (!peer->waiting.empty()) {
        fail_waiting(*peer, peer->waiting.back()->id, ClientFailure::kCancelled, "cancelled");
      }
    }
    while (!failed_.empty()) report_failed();
  }

  // ConnectionOwner.
  void ended(ClientExchangePtr exchange) override {
    if (exchange->response.failure == ClientFailure::kNone) return complete(*exchange);
    // Later: a caller that starts again on failure would otherwise recurse without end, and one
    // that has not yet returned from start() would hear before it knows the id.
    failed_.push_back(std::move(exchange));
    if (failed_.size() == 1 && !closing_) {
      loop_->post([this] { report_failed(); });
    }
  }

  void report_failed() {
    std::vector<ClientExchangePtr> failed;
    failed.swap(failed_);
    for (const ClientExchangePtr& exchange : failed) complete(*exchange);
  }

  static void complete(ClientExchange& exchange) {
    if (exchange.handlers.on_done) exchange.handlers.on_done(std::move(exchange.response));
  }

  void retry(ClientExchangePtr exchange) override {
    set_connect_deadline(*exchange, steady_now());
    Peer& peer = peer_of(exchange->request.url);
    open(peer, std::move(exchange));
  }

  void idle(ClientConnection& connection) override {
    peer_of(connection.origin()).idle.push_back(&connection);
  }

  void closed(ClientConnection& connection) override {
    set_deadline(connection, 0);
    std::erase(peer_of(connection.origin()).idle, &connection);
    const auto found = connections_.find(&connection);
    if (dead_.empty()) {
      loop_->post([this] { dead_.clear(); });
    }
    dead_.push_back(std::move(found->second));  // it is still on the stack
    connections_.erase(found);
  }

  void set_deadline(ClientConnection& connection, Nanos when) override {
    if (connection.deadline == when) return;
    if (connection.deadline != 0) deadlines_.erase({connection.deadline, &connection});
    connection.deadline = when;
    if (when == 0) return;
    deadlines_.insert({when, &connection});
    arm_deadline_timer();
  }

  // One timer for the earliest deadline. It may find nothing due: then it looks again later.
  void arm_deadline_timer() {
    if (deadlines_.empty()) return;
    const Nanos first = deadlines_.begin()->first;
    if (timer_at_ != 0 && timer_at_ <= first) return;
    timer_at_ = first;
    loop_->at(first, [this, first] {
      if (timer_at_ != first) return;  // another was armed for an earlier instant
      timer_at_ = 0;
      const Nanos now = steady_now();
      while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
        deadlines_.begin()->second->expire();
      }
      arm_deadline_timer();
    });
  }

  Peer& peer_of(const Url& url) { return peer_of(url.scheme, url.host, url.port); }
  Peer& peer_of(const Origin& origin) { return peer_of(origin.scheme, origin.host, origin.port); }
  Peer& peer_of(const std::string& scheme, const std::string& host, std::uint16_t port) {
    for (const auto& peer : peers_) {  // a handful
      const Origin& origin = peer->origin;
      if (origin.port == port && origin.host == host && origin.scheme == scheme) return *peer;
    }
    auto peer = std::make_unique<Peer>();
    const std::string name = shown_host(host);
    const bool usual_port = port == (scheme == "https" ? 443 : 80);
    peer->origin = {scheme, host, port, usual_port ? name : fmt::format("{}:{}", name, port)};
    if (settings_.environment_proxies) choose_proxy(*peer);
    peers_.push_back(std::move(peer));
    return *peers_.back();
  }

  static void choose_proxy(Peer& peer) {
    const Origin& origin = peer.origin;
    const std::string named =
        ProxyChoice::of_environment().proxy_of(origin.scheme, origin.host, origin.port);
    if (named.empty()) return;
    auto proxy = parse_http_proxy(named);
    if (proxy) {
      peer.origin.proxy = *std::move(proxy);
    } else {
      peer.unusable = proxy.error().message;
    }
  }

  const HttpClientSettings settings_;
  std::unique_ptr<EventLoop> loop_;
  std::shared_ptr<TlsClientContext> tls_;
  std::atomic<RequestId> next_id_{1};

  // All below belongs to the loop's thread.
  std::vector<char> read_buffer_;
  ClientCounters counters_;
  ConnectionResources plain_;
  ConnectionResources secure_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unordered_map<ClientConnection*, std::unique_ptr<ClientConnection>> connections_;
  std::vector<std::unique_ptr<ClientConnection>> dead_;
  std::vector<ClientExchangePtr> failed_;  // to be told in the next turn
  std::set<std::pair<Nanos, ClientConnection*>> deadlines_;
  Nanos timer_at_ = 0;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpClient>> HttpClient::create(const HttpClientSettings& settings) {
  raise_descriptor_limit();
  TRY(auto tls, TlsClientContext::create(settings));
  TRY(auto loop, EventLoop::create());
  return std::make_unique<PooledClient>(settings, std::move(loop), std::move(tls));
}

std::string_view ClientResponse::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

std::string_view name_of(ClientFailure failure) {
  switch (failure) {
    case ClientFailure::kNone:
      return "none";
    case ClientFailure::kConnect:
      return "connect";
    case ClientFailure::kTls:
      return "tls";
    case ClientFailure::kTimeout:
      return "timeout";
    case ClientFailure::kProtocol:
      return "protocol";
    case ClientFailure::kTruncated:
      return "truncated";
    case ClientFailure::kTooLarge:
      return "too large";
    case ClientFailure::kCancelled:
      return "cancelled";
  }
  return "";
}

ErrorCode error_code_of(ClientFailure failure) {
  switch (failure) {
    case ClientFailure::kConnect:
    case ClientFailure::kTls:
    case ClientFailure::kTruncated:
      return ErrorCode::kUnavailable;
    case ClientFailure::kTimeout:
      return ErrorCode::kTimeout;
    case ClientFailure::kProtocol:
      return ErrorCode::kCorrupt;
    case ClientFailure::kTooLarge:
      return ErrorCode::kTooLarge;
    case ClientFailure::kCancelled:
      return ErrorCode::kCancelled;
    case ClientFailure::kNone:
      break;
  }
  return ErrorCode::kInternal;
}

}  // namespace saccade::net
