// One connection of the client: connect, TLS, then requests one after another. Internal to net/.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/client/http_client.h"
#include "net/client/http_proxy.h"
#include "net/client/resolver.h"
#include "net/client/response_parser.h"
#include "net/client/tls_client.h"
#include "net/event_loop.h"

namespace saccade::net {

// A request on its way, with what is known of its answer.
struct ClientExchange {
  HttpClient::RequestId id = 0;
  ClientRequest request;
  ClientHandlers handlers;
  ClientResponse response;
  Nanos connect_deadline = 0;
  bool retried = false;
};
using ClientExchangePtr = std::unique_ptr<ClientExchange>;

// Hosts differ by scheme, name and port.
struct Origin {
  std::string scheme;
  std::string host;
  std::uint16_t port = 0;
  std::string host_header;  // "name:port", the port left out when it is the scheme's own
  // Connections go to this one, which passes https through and asks for http itself.
  std::optional<HttpProxy> proxy = std::nullopt;
};

class ClientConnection;

// The pool, as its connections see it.
class ConnectionOwner {
 public:
  // The exchange has its complete response, or its failure.
  virtual void ended(ClientExchangePtr exchange) = 0;
  // The pooled connection was closed before a byte of the response.
  virtual void retry(ClientExchangePtr exchange) = 0;
  virtual void idle(ClientConnection& connection) = 0;
  virtual void closed(ClientConnection& connection) = 0;  // to be destroyed, in a later turn
  // expire() is to be called at this instant; 0: never. Replaces the one before.
  virtual void set_deadline(ClientConnection& connection, Nanos when) = 0;

 protected:
  ~ConnectionOwner() = default;
};

// What the connections of one client share.
struct ConnectionResources {
  EventLoop& loop;
  ConnectionOwner& owner;
  std::shared_ptr<TlsClientContext> tls;
  std::span<char> read_buffer;
  ClientCounters& counters;
  bool fresh_connections;
  std::size_t max_body_bytes;
};

// One thread. Made for an exchange; once that has ended well, idle until begin() gives the next.
class ClientConnection final : public EventLoop::Watcher, private ResponseSink {
 public:
  ClientConnection(ConnectionResources& resources, const Origin& origin,
                   std::shared_ptr<const Addresses> addresses);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  void connect(ClientExchangePtr exchange);
  void begin(ClientExchangePtr exchange);  // idle connections only
  void expire();                           // the deadline has come
  void cancel();
  const ClientExchange* exchange() const { return exchange_.get(); }
  const Origin& origin() const { return origin_; }

  // The pool's: position in its set of deadlines.
  Nanos deadline = 0;

 private:
  enum class State { kConnecting, kTunnel, kHandshake, kIdle, kBusy, kClosed };

  void on_ready(std::uint32_t events) override;
  bool on_head(int status, std::vector<std::pair<std::string, std::string>>&& headers) override;
  bool on_body(std::string_view bytes) override;

  void try_next_address(std::string why_not_the_last);
  void connected();
  void ask_for_tunnel();
  void read_tunnel();
  void begin_tls();
  void handshake();
  void send_request(bool reused);
  void write_head();
  void write();
  IoStep write_plain();
  IoStep write_tls();
  void advance_write(std::size_t bytes);
  void read();
  IoStep read_some();
  bool take(std::string_view bytes);  // false: the exchange has ended
  void stream_ended(const IoStep& step);
  void check_idle();
  void complete();
  void fail_exchange(ClientFailure failure, std::string why);
  void close();
  void release();  // the socket and its TLS

  ConnectionResources& resources_;
  const Origin& origin_;
  std::shared_ptr<const Addresses> addresses_;
  std::size_t next_address_ = 0;
  State state_ = State::kConnecting;
  int fd_ = -1;
  std::unique_ptr<TlsSession> tls_;
  bool peer_shut_down_ = false;

  ClientExchangePtr exchange_;
  bool reused_ = false;
  ResponseParser parser_;
  Nanos read_at_ = 0;  // instant of the read whose bytes are being taken
  ClientFailure stopped_for_ = ClientFailure::kNone;

  std::string tunnel_;  // the proxy's answer to CONNECT, as far as it has come

  // The request's bytes: piece 0 is head_, the others its body's parts.
  std::string head_;
  std::size_t write_piece_ = 0;
  std::size_t write_offset_ = 0;
  bool sent_ = false;
};

}  // namespace saccade::net
