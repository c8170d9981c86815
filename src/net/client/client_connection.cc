// The life of a client connection, in the order of its states.
#include "net/client/client_connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace saccade::net {
namespace {

constexpr int kReadsPerTurn = 16;  // then other connections have their turn
constexpr std::size_t kMaxPieces = 64;

bool names(const ClientRequest& request, std::string_view header) {
  return std::any_of(request.headers.begin(), request.headers.end(), [&](const auto& named) {
    return named.first.size() == header.size() &&
           strncasecmp(named.first.data(), header.data(), header.size()) == 0;
  });
}

}  // namespace

ClientConnection::ClientConnection(ConnectionResources& resources, const Origin& origin,
                                   std::shared_ptr<const Addresses> addresses)
    : resources_(resources), origin_(origin), addresses_(std::move(addresses)) {}

ClientConnection::~ClientConnection() { release(); }

void ClientConnection::connect(ClientExchangePtr exchange) {
  exchange_ = std::move(exchange);
  state_ = State::kConnecting;
  resources_.owner.set_deadline(*this, exchange_->connect_deadline);
  try_next_address("no address");
}

void ClientConnection::try_next_address(std::string why_not_the_last) {
  std::string why = std::move(why_not_the_last);
  while (next_address_ < addresses_->size()) {
    const SocketAddress& address = (*addresses_)[next_address_++];
    if (fd_ >= 0) {
      resources_.loop.unwatch(fd_, this);
      ::close(fd_);
    }
    fd_ = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) {
      why = std::strerror(errno);
      continue;
    }
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    const int result =
        ::connect(fd_, reinterpret_cast<const sockaddr*>(&address.storage), address.size);
    if (result != 0 && errno != EINPROGRESS) {
      why = std::strerror(errno);
      continue;
    }
    const Result<void> watched = resources_.loop.watch(fd_, this);
    if (watched) return;  // on_ready() when it is decided, also when it already is
    why = watched.error().message;
  }
  fail_exchange(ClientFailure::kConnect,
                origin_.proxy ? fmt::format("cannot connect to the proxy {} for {}: {}",
                                            origin_.proxy->name(), origin_.host_header, why)
                              : fmt::format("cannot connect to {}: {}", origin_.host_header, why));
}

void ClientConnection::on_ready(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer_shut_down_ = true;
  switch (state_) {
    case State::kConnecting:
      return connected();
    case State::kTunnel:
      return read_tunnel();
    case State::kHandshake:
      return handshake();
    case State::kIdle:
      if (events != EPOLLOUT) check_idle();
      return;
    case State::kBusy:
      if (!sent_ && (events & EPOLLOUT) != 0) write();
      if (state_ == State::kBusy && events != EPOLLOUT) read();
      return;
    case State::kClosed:
      return;
  }
}

void ClientConnection::connected() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    peer_shut_down_ = false;
    return try_next_address(std::strerror(error));
  }
  ++resources_.counters.connects;
  if (resources_.tls == nullptr) return send_request(false);
  return origin_.proxy ? ask_for_tunnel() : begin_tls();
}

void ClientConnection::ask_for_tunnel() {
  state_ = State::kTunnel;
  const std::string ask = connect_request(*origin_.proxy, origin_.host, origin_.port);
  // What a fresh socket does not take at once, no later turn would make it take.
  if (send(fd_, ask.data(), ask.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(ask.size()))
    return fail_exchange(ClientFailure::kConnect,
                         fmt::format("the proxy {} does not listen", origin_.proxy->name()));
  resources_.loop.again(this);
}

void ClientConnection::read_tunnel() {
  const IoStep step = read_some();
  if (step.status == IoStatus::kWouldBlock) return;
  if (step.status == IoStatus::kDone) tunnel_.append(resources_.read_buffer.data(), step.bytes);
  const Tunnel answer = read_tunnel_answer(tunnel_);
  if (answer.state == Tunnel::State::kOpen) return begin_tls();
  if (answer.state == Tunnel::State::kUndecided && step.status == IoStatus::kDone)
    return resources_.loop.again(this);
  fail_exchange(
      ClientFailure::kConnect,
      fmt::format("the proxy {} makes no way to {}: {}", origin_.proxy->name(), origin_.host_header,
                  answer.why.empty() ? "the connection ended" : answer.why));
}

void ClientConnection::begin_tls() {
  state_ = State::kHandshake;
  tls_ = std::make_unique<TlsSession>(resources_.tls, fd_, origin_.host);
  handshake();
}

void ClientConnection::handshake() {
  const IoStep step = tls_->handshake();
  if (step.status == IoStatus::kWouldBlock) return;
  if (step.status == IoStatus::kDone) return send_request(false);
  fail_exchange(ClientFailure::kTls,
                fmt::format("TLS with {}: {}", origin_.host_header, tls_->failure()));
}

void ClientConnection::begin(ClientExchangePtr exchange) {
  exchange_ = std::move(exchange);
  send_request(true);
}

void ClientConnection::send_request(bool reused) {
  state_ = State::kBusy;
  reused_ = reused;
  ClientTimes& times = exchange_->response.times;
  times.reused_connection = reused;
  times.connected = reused ? times.start : steady_now();
  resources_.owner.set_deadline(*this, exchange_->request.deadline);
  parser_.reset(exchange_->request.method == "HEAD");
  stopped_for_ = ClientFailure::kNone;
  sent_ = false;
  write_piece_ = 0;
  write_offset_ = 0;
  write_head();
  write();
  // What the peer said before we were ready to listen had its edge then.
  if (!reused) resources_.loop.again(this);
}

void ClientConnection::write_head() {
  const ClientRequest& request = exchange_->request;
  std::size_t body_bytes = 0;
  for (const SharedBytes& part : request.body) body_bytes += part->size();
  head_.clear();
  const bool to_proxy = origin_.proxy && origin_.scheme == "http";
  fmt::format_to(std::back_inserter(head_), "{} {}{} HTTP/1.1\r\nHost: {}\r\n", request.method,
                 to_proxy ? "http://" + origin_.host_header : "", request.url.path,
                 origin_.host_header);
  if (to_proxy) head_ += origin_.proxy->authorization;
  for (const auto& [name, value] : request.headers) {
    const std::size_t begin = head_.size();
    head_ += name;
    head_ += ": ";
    head_ += value;
    // No value can start a header of its own.
    std::replace_if(
        head_.begin() + static_cast<std::ptrdiff_t>(begin), head_.end(),
        [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
    head_ += "\r\n";
  }
  if (!names(request, "accept")) head_ += "Accept: */*\r\n";
  if (!names(request, "user-agent")) head_ += "User-Agent: saccade\r\n";
  if (body_bytes > 0 && !names(request, "content-type")) {
    fmt::format_to(std::back_inserter(head_), "Content-Type: {}\r\n", request.content_type);
  }
  if (body_bytes > 0 || (request.method != "GET" && request.method != "HEAD")) {
    fmt::format_to(std::back_inserter(head_), "Content-Length: {}\r\n", body_bytes);
  }
  if (resources_.fresh_connections) head_ += "Connection: close\r\n";
  head_ += "\r\n";
}

void ClientConnection::write() {
  while (true) {
    const IoStep step = tls_ != nullptr ? write_tls() : write_plain();
    if (step.status == IoStatus::kWouldBlock) return;
    if (step.status != IoStatus::kDone) {
      // The answer that made the peer stop reading (413, say) may be there to be read: in the next
      // turn, as we may be inside a callback that looks at the read buffer.
      return resources_.loop.again(this);
    }
    resources_.counters.bytes_sent += step.bytes;
    advance_write(step.bytes);
    if (write_piece_ > exchange_->request.body.size()) {
      sent_ = true;
      exchange_->response.times.sent = steady_now();
      return;
    }
  }
}

IoStep ClientConnection::write_plain() {
  const auto& parts = exchange_->request.body;
  std::array<iovec, kMaxPieces> pieces;
  std::size_t count = 0;
  std::size_t offset = write_offset_;
  for (std::size_t i = write_piece_; i <= parts.size() && count < kMaxPieces; ++i) {
    const std::string& piece = i == 0 ? head_ : *parts[i - 1];
    // sendmsg() does not write into what it is given.
    pieces[count++] = {const_cast<char*>(piece.data()) + offset, piece.size() - offset};
    offset = 0;
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
  if (sent >= 0) return {IoStatus::kDone, static_cast<std::size_t>(sent)};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoStatus::kWouldBlock, 0};
  return {IoStatus::kFailed, 0, errno};
}

IoStep ClientConnection::write_tls() {
  const auto& parts = exchange_->request.body;
  const std::string& piece = write_piece_ == 0 ? head_ : *parts[write_piece_ - 1];
  const std::string_view rest = std::string_view(piece).substr(write_offset_);
  return rest.empty() ? IoStep{} : tls_->write(rest);
}

// Past `bytes`, and past every piece that ends there.
void ClientConnection::advance_write(std::size_t bytes) {
  const auto& parts = exchange_->request.body;
  while (write_piece_ <= parts.size()) {
    const std::size_t left =
        (write_piece_ == 0 ? head_.size() : parts[write_piece_ - 1]->size()) - write_offset_;
    if (bytes < left) {
      write_offset_ += bytes;
      return;
    }
    bytes -= left;
    ++write_piece_;
    write_offset_ = 0;
  }
}

IoStep ClientConnection::read_some() {
  if (tls_ != nullptr) return tls_->read(resources_.read_buffer);
  const ssize_t count = recv(fd_, resources_.read_buffer.data(), resources_.read_buffer.size(), 0);
  if (count > 0) return {IoStatus::kDone, static_cast<std::size_t>(count)};
  if (count == 0) return {IoStatus::kClosed, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {IoStatus::kWouldBlock, 0};
  return {IoStatus::kFailed, 0, errno};
}

void ClientConnection::read() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const IoStep step = read_some();
    if (step.status == IoStatus::kWouldBlock) return;
    read_at_ = steady_now();
    if (step.status != IoStatus::kDone) return stream_ended(step);
    resources_.counters.bytes_received += step.bytes;
    if (!take({resources_.read_buffer.data(), step.bytes})) return;
    // A short read has emptied the socket: the next edge says when there is more.
    const bool short_read = step.bytes < resources_.read_buffer.size();
    if (tls_ == nullptr && short_read && !peer_shut_down_) return;
  }
  resources_.loop.again(this);
}

bool ClientConnection::take(std::string_view bytes) {
  switch (parser_.feed(bytes, *this)) {
    case ResponseParser::State::kMore:
      return true;
    case ResponseParser::State::kDone:
      if (parser_.consumed() < bytes.size()) peer_shut_down_ = true;  // unasked bytes: no reuse
      complete();
      return false;
    case ResponseParser::State::kFailed:
      fail_exchange(ClientFailure::kProtocol,
                    fmt::format("{}: {}", origin_.host_header, parser_.failure()));
      return false;
    case ResponseParser::State::kStopped:
      fail_exchange(stopped_for_,
                    stopped_for_ == ClientFailure::kTooLarge
                        ? fmt::format("{}: the response is over the limit of {} bytes",
                                      origin_.host_header, resources_.max_body_bytes)
                        : "cancelled");
      return false;
  }
  return false;
}

bool ClientConnection::on_head(int status,
                               std::vector<std::pair<std::string, std::string>>&& headers) {
  ClientResponse& response = exchange_->response;
  response.status = status;
  response.headers = std::move(headers);
  response.times.headers = read_at_;
  if (sent_) exchange_->request.body.clear();  // an answer may take long: nobody needs it again
  if (exchange_->handlers.on_headers) exchange_->handlers.on_headers(response);
  return true;
}

bool ClientConnection::on_body(std::string_view bytes) {
  if (exchange_->handlers.on_body) {
    if (exchange_->handlers.on_body(bytes, read_at_)) return true;
    stopped_for_ = ClientFailure::kCancelled;
    return false;
  }
  std::string& body = exchange_->response.body;
  if (body.size() + bytes.size() > resources_.max_body_bytes) {
    stopped_for_ = ClientFailure::kTooLarge;
    return false;
  }
  body += bytes;
  return true;
}

// End of file, reset, or a TLS failure.
void ClientConnection::stream_ended(const IoStep& step) {
  if (reused_ && !parser_.started() && !exchange_->retried) {
    exchange_->retried = true;
    ClientExchangePtr exchange = std::move(exchange_);
    close();
    return resources_.owner.retry(std::move(exchange));
  }
  peer_shut_down_ = true;
  if (step.status == IoStatus::kClosed && parser_.finish() == ResponseParser::State::kDone) {
    return complete();
  }
  std::string why = parser_.failure();
  if (step.status == IoStatus::kFailed) {
    why = tls_ != nullptr ? tls_->failure() : std::strerror(step.error);
    why += parser_.started() ? ", within the response" : ", before a response";
  }
  fail_exchange(ClientFailure::kTruncated, fmt::format("{}: {}", origin_.host_header, why));
}

void ClientConnection::check_idle() {
  const IoStep step = read_some();
  if (step.status != IoStatus::kWouldBlock) close();
}

void ClientConnection::complete() {
  exchange_->response.times.end = read_at_;
  ClientExchangePtr exchange = std::move(exchange_);
  const bool reusable =
      parser_.keep_alive() && sent_ && !peer_shut_down_ && !resources_.fresh_connections;
  if (reusable) {
    state_ = State::kIdle;
    resources_.owner.set_deadline(*this, 0);
    resources_.owner.idle(*this);
  } else {
    close();
  }
  resources_.owner.ended(std::move(exchange));  // may begin the next request here
}

void ClientConnection::expire() {
  const bool connecting =
      state_ == State::kConnecting || state_ == State::kTunnel || state_ == State::kHandshake;
  fail_exchange(ClientFailure::kTimeout,
                fmt::format("{}: {}", origin_.host_header,
                            connecting ? "no connection in time" : "no complete response in time"));
}

void ClientConnection::cancel() { fail_exchange(ClientFailure::kCancelled, "cancelled"); }

void ClientConnection::fail_exchange(ClientFailure failure, std::string why) {
  ClientExchangePtr exchange = std::move(exchange_);
  close();
  exchange->response.failure = failure;
  exchange->response.error = std::move(why);
  exchange->response.times.end = steady_now();
  resources_.owner.ended(std::move(exchange));
}

void ClientConnection::close() {
  state_ = State::kClosed;
  release();
  resources_.owner.closed(*this);
}

void ClientConnection::release() {
  tls_.reset();
  if (fd_ < 0) return;
  resources_.loop.unwatch(fd_, this);
  ::close(fd_);
  fd_ = -1;
}

}  // namespace saccade::net
