// The life of a connection, in the order of its phases.
#include "net/server/server_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/log.h"
#include "net/exchange.h"
#include "net/server/response_text.h"

namespace saccade::net {
namespace {

using std::chrono::steady_clock;

// Pipelined bytes that are taken in during an answer.
constexpr std::size_t kReadAhead = 64u << 10;
constexpr std::size_t kBodyReadBytes = 128u << 10;
constexpr std::size_t kKeptBuffer = 16u << 10;
// A body must come at this mean rate once header_timeout has passed.
constexpr std::size_t kMinBodyBytesPerSecond = 16u << 10;
constexpr std::size_t kChunkReserve = 256u << 10;  // by which the room for a chunked body grows
constexpr std::size_t kSmallAnswer = 64u << 10;    // has always room
constexpr std::chrono::seconds kLingerIdle{2};
constexpr std::chrono::seconds kLingerTotal{30};

}  // namespace

boost::asio::mutable_buffer InputBuffer::prepare(std::size_t room) {
  if (bytes_.size() - end_ < room) {
    std::copy(bytes_.begin() + static_cast<std::ptrdiff_t>(begin_),
              bytes_.begin() + static_cast<std::ptrdiff_t>(end_), bytes_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (bytes_.size() - end_ < room) bytes_.resize(end_ + room);
  }
  return {bytes_.data() + end_, bytes_.size() - end_};
}

void InputBuffer::append(std::string_view bytes) {
  prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(end_));
  commit(bytes.size());
}

void InputBuffer::consume(std::size_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

void InputBuffer::shrink() {
  if (empty() && bytes_.size() > kKeptBuffer) {
    bytes_.clear();
    bytes_.shrink_to_fit();
  }
}

ServerConnection::ServerConnection(std::shared_ptr<ServerContext> context,
                                   std::shared_ptr<IoThread> thread,
                                   std::unique_ptr<Transport> transport, std::string peer)
    : context_(std::move(context)),
      thread_(std::move(thread)),
      transport_(std::move(transport)),
      peer_(std::move(peer)) {
  const std::lock_guard lock(context_->mutex);
  ++context_->open;
  awaited_ = !context_->draining;
  if (awaited_) ++context_->awaited;
}

ServerConnection::~ServerConnection() = default;

void ServerConnection::start() {
  thread_->add(shared_from_this());
  deadline_ = steady_clock::now() + context_->settings.header_timeout;
  transport_->handshake(shared_from_this());
}

void ServerConnection::on_handshake(const error_code& error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  guarded([this] { begin_request(); });
}

void ServerConnection::begin_request() {
  phase_ = Phase::kHeader;
  parser_.emplace(context_->settings.max_header_bytes, context_->settings.max_body_bytes);
  request_began_ = false;
  in_.shrink();
  deadline_ = steady_clock::now() + (first_request_ ? context_->settings.header_timeout
                                                    : context_->settings.idle_timeout);
  first_request_ = false;
  consume_input();
}

void ServerConnection::consume_input() {
  if (!request_began_ && !in_.empty()) {
    request_began_ = true;
    deadline_ = steady_clock::now() + context_->settings.header_timeout;
  }
  while (true) {
    const RequestParser::Step step = parser_->feed(in_.view());
    in_.consume(step.consumed);
    switch (step.progress) {
      case RequestParser::Progress::kNeedMore:
        if (phase_ == Phase::kBody && !reserve_chunks()) return;
        return read_more();
      case RequestParser::Progress::kHeaderDone:
        if (!begin_body()) return;
        break;
      case RequestParser::Progress::kDone:
        return dispatch();
      case RequestParser::Progress::kFailed:
        return refuse(parser_->refusal_status(), parser_->refusal());
    }
  }
}

bool ServerConnection::begin_body() {
  phase_ = Phase::kBody;
  body_began_ = steady_clock::now();
  body_received_ = 0;
  reserved_.reset();
  if (context_->admit && parser_->has_body()) {
    const auto length = parser_->content_length();
    HttpAdmission admission = context_->admit(parser_->request(), length);
    if (admission.refusal) {
      refuse(*std::move(admission.refusal));
      return false;
    }
    reserved_ = std::make_shared<ByteReservation>(std::move(admission.body));
    if (length && !parser_->reserve_body(static_cast<std::size_t>(*length))) {
      refuse(503, fmt::format("no memory for a body of {} bytes now", *length));
      return false;
    }
  }
  if (parser_->expects_continue() && !parser_->http_1_0() && in_.empty()) {
    pending_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  return phase_ != Phase::kClosed;
}

bool ServerConnection::reserve_chunks() {
  if (!reserved_ || parser_->content_length()) return true;
  const std::size_t held = parser_->request().body.size();
  if (held <= reserved_->bytes() || reserved_->grow(held - reserved_->bytes() + kChunkReserve))
    return true;
  refuse(503, fmt::format("no room for more than {} bytes of this body now", held));
  return false;
}

void ServerConnection::dispatch() {
  phase_ = Phase::kHandler;
  ++exchange_;
  keep_alive_ = parser_->keep_alive();
  http_1_0_ = parser_->http_1_0();
  HttpRequest request = parser_->take_request();
  parser_.reset();
  request.peer = peer_;
  request.reserved = std::move(reserved_);
  head_ = request.method == "HEAD";
  in_.shrink();
  read_more();
  // An answer comes back as a post, also from within the handler; without one, the Responder's end
  // posts a 500.
  Responder responder(std::make_shared<ConnectionExchange>(shared_from_this(), exchange_));
  try {
    context_->handler(std::move(request), std::move(responder));
  } catch (const std::exception& error) {
    log::error("http handler: {}", error.what());
  }
}

void ServerConnection::refuse(int status, std::string_view why) {
  HttpResponse response;
  response.status = status;
  response.body = context_->settings.error_body ? context_->settings.error_body(status, why)
                                                : default_error_body(status, why);
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  refuse(std::move(response));
}

void ServerConnection::refuse(HttpResponse response) {
  ++exchange_;
  keep_alive_ = false;
  head_ = false;
  http_1_0_ = false;
  reserved_.reset();
  parser_.reset();  // and with it what has come of the body
  phase_ = Phase::kHandler;
  respond(exchange_, std::move(response));
}

void ServerConnection::respond(std::uint64_t exchange, HttpResponse response) {
  // A stream that has begun has no room for another answer: the client must see that it is cut.
  if (current(exchange, Phase::kStreaming)) return close();
  if (!current(exchange, Phase::kHandler)) return;
  phase_ = Phase::kFlushing;
  if (last_answer()) keep_alive_ = false;
  if (response.body.size() > kSmallAnswer && too_much_unsent(response.body.size())) {
    const std::string why = fmt::format(
        "no room for an answer of {} bytes beside those that slow readers have not taken yet",
        response.body.size());
    response.status = 503;
    response.content_type = "application/json";
    response.body = context_->settings.error_body ? context_->settings.error_body(503, why)
                                                  : default_error_body(503, why);
    response.headers.emplace_back("Retry-After", "1");
  }
  append_response_head(pending_, response, keep_alive_, http_1_0_);
  if (!head_ && may_have_body(response.status)) pending_ += response.body;
  flush();
}

// Nothing more is taken from this connection, or nothing more can come.
bool ServerConnection::last_answer() const {
  return context_->draining.load(std::memory_order_relaxed) || (half_closed_ && in_.empty());
}

void ServerConnection::start_stream(std::uint64_t exchange, const HeaderList& headers) {
  if (!current(exchange, Phase::kHandler)) return;
  phase_ = Phase::kStreaming;
  if (http_1_0_ || last_answer()) keep_alive_ = false;
  chunked_ = !http_1_0_;
  events_ = true;
  left_.reset();
  append_stream_head(pending_, headers, keep_alive_, http_1_0_);
  flush();
}

void ServerConnection::start_answer(std::uint64_t exchange, const AnswerHead& head) {
  if (!current(exchange, Phase::kHandler)) return;
  phase_ = Phase::kStreaming;
  const bool body = may_have_body(head.status);
  left_ = body ? head.length : std::optional<std::uint64_t>(0);
  chunked_ = !left_ && !http_1_0_;
  events_ = false;
  if ((!left_ && http_1_0_) || last_answer()) keep_alive_ = false;
  append_answer_head(pending_, head, chunked_, keep_alive_, http_1_0_);
  flush();
}

void ServerConnection::cut(std::uint64_t exchange) {
  if (current(exchange, Phase::kStreaming)) close();
}

void ServerConnection::write_events(std::uint64_t exchange, std::string_view events) {
  if (!current(exchange, Phase::kStreaming) || head_ || events.empty()) return;
  if (buffered() + events.size() > context_->settings.max_buffered) {
    log::warning("{}: closed, over {} bytes of events wait for a slow reader", peer_,
                 context_->settings.max_buffered);
    return close();
  }
  if (buffered() > kSmallAnswer && too_much_unsent(events.size())) {
    log::warning("{}: closed, over {} bytes wait for slow readers in all", peer_,
                 context_->settings.max_unsent);
    return close();
  }
  // No more than was announced: what is over would be taken for the next answer.
  if (left_)
    events =
        events.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(events.size(), *left_)));
  if (events.empty()) return;
  if (left_) *left_ -= events.size();
  if (chunked_) {
    append_chunk(pending_, events);
  } else {
    pending_ += events;
  }
  flush();
}

void ServerConnection::end_stream(std::uint64_t exchange) {
  if (!current(exchange, Phase::kStreaming)) return;
  if (left_ && *left_ > 0 && !head_) return close();  // less than was announced
  phase_ = Phase::kFlushing;
  if (chunked_ && !head_) pending_ += "0\r\n\r\n";
  flush();
}

void ServerConnection::set_on_disconnect(std::uint64_t exchange, std::function<void()> callback) {
  if (phase_ == Phase::kClosed) {
    if (exchange == lost_exchange_) callback();
  } else if (exchange == exchange_ && answering()) {
    on_disconnect_ = std::move(callback);
  }
}

void ServerConnection::abandon(std::uint64_t exchange) {
  if (current(exchange, Phase::kHandler)) {
    log::error("{}: a request was dropped without an answer", peer_);
    constexpr int kInternalError = 500;
    HttpResponse response;
    response.status = kInternalError;
    const std::string_view why = "the server dropped the request";
    response.body = context_->settings.error_body
                        ? context_->settings.error_body(kInternalError, why)
                        : default_error_body(kInternalError, why);
    respond(exchange, std::move(response));
  } else if (current(exchange, Phase::kStreaming)) {
    log::error("{}: a stream was dropped before its end", peer_);
    close();  // without the last chunk: the client must see that it is cut
  }
}

bool ServerConnection::too_much_unsent(std::size_t more) const {
  return context_->unsent.load(std::memory_order_relaxed) + more > context_->settings.max_unsent;
}

// What is held, not what is left to write: a string shrinks at its end alone.
void ServerConnection::count_unsent() {
  if (phase_ == Phase::kClosed) return;
  const std::size_t held = out_.size() + pending_.size();
  context_->unsent.fetch_add(held - counted_, std::memory_order_relaxed);  // may wrap, as meant
  counted_ = held;
}

void ServerConnection::flush() {
  while (!writing_) {
    if (out_written_ == out_.size()) {
      out_.clear();
      out_written_ = 0;
      if (pending_.empty()) {
        count_unsent();
        return on_flushed();
      }
      out_.swap(pending_);
    }
    const boost::asio::const_buffer rest(out_.data() + out_written_, out_.size() - out_written_);
    error_code error;
    const std::size_t written = transport_->try_write(rest, error);
    if (error) return close();
    out_written_ += written;
    if (written == 0) {
      writing_ = true;
      write_deadline_ = steady_clock::now() + context_->settings.idle_timeout;
      transport_->write_some(rest, shared_from_this());
    }
  }
  count_unsent();
}

void ServerConnection::on_write(const error_code& error, std::size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  out_written_ += bytes;
  guarded([this] { flush(); });
}

void ServerConnection::on_flushed() {
  if (out_.capacity() > kBodyReadBytes) std::string().swap(out_);
  if (phase_ != Phase::kFlushing) return;
  on_disconnect_ = nullptr;
  if (keep_alive_ && !last_answer()) return begin_request();
  if (half_closed_) return close();  // all that it sends has been read
  linger();
}

// Closing at once would reset the connection under an answer that the peer has not read yet when it
// is still sending (RFC 9112 9.6).
void ServerConnection::linger() {
  phase_ = Phase::kLingering;
  transport_->shutdown_send();
  const SteadyTime now = steady_clock::now();
  linger_end_ = now + kLingerTotal;
  deadline_ = now + kLingerIdle;
  in_.consume(in_.view().size());
  read_more();
}

// Also during an answer, so that a peer's leaving is seen behind whatever it has sent besides:
// blank lines, or requests that wait for their turn in in_.
void ServerConnection::read_more() {
  if (reading_) return;
  if (half_closed_) {
    if (!answering()) close();
    return;
  }
  if (answering() && in_.view().size() >= kReadAhead) return;
  reading_ = true;
  reads_ahead_ = phase_ != Phase::kBody && phase_ != Phase::kLingering;
  transport_->read_some(reads_ahead_ ? boost::asio::buffer(ahead_) : in_.prepare(kBodyReadBytes),
                        shared_from_this());
}

// A peer that has closed and one that only stopped sending look alike until they are sent
// something: the first answers with a reset, the second ignores an interim response, or a comment
// among events.
void ServerConnection::on_end_of_input() {
  half_closed_ = true;
  // A complete answer on its way may still reach it.
  if (phase_ == Phase::kFlushing) return;
  if (!answering() || !transport_->watch_reset(shared_from_this())) return close();
  if (phase_ == Phase::kHandler && !http_1_0_) {
    pending_ += "HTTP/1.1 102 Processing\r\n\r\n";
  } else if (phase_ == Phase::kStreaming && events_ && !head_) {
    constexpr std::string_view kComment = ":\n\n";
    if (chunked_) {
      append_chunk(pending_, kComment);
    } else {
      pending_ += kComment;
    }
  }
  flush();
}

void ServerConnection::on_read(const error_code& error, std::size_t bytes) {
  guarded([&] { received(error, bytes); });
}

void ServerConnection::received(const error_code& error, std::size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error == boost::asio::error::eof) return on_end_of_input();
  if (error) {
    // A complete answer on its way may still reach a peer whose reading end lives.
    if (phase_ != Phase::kFlushing) return close();
    half_closed_ = true;
    return;
  }
  if (reads_ahead_) {
    in_.append({ahead_.data(), bytes});
  } else {
    in_.commit(bytes);
  }
  switch (phase_) {
    case Phase::kHeader:
    case Phase::kBody:
      body_received_ += bytes;
      return consume_input();
    case Phase::kLingering:
      in_.consume(in_.view().size());
      deadline_ = std::min(steady_clock::now() + SteadyTime::duration(kLingerIdle), linger_end_);
      return read_more();
    default:
      return read_more();  // pipelined
  }
}

void ServerConnection::sweep(SteadyTime now) {
  if (writing_ && now > write_deadline_) return close();
  switch (phase_) {
    case Phase::kHandshake:
    case Phase::kLingering:
      if (now > deadline_) close();
      return;
    case Phase::kHeader:
      if (now <= deadline_) return;
      if (!request_began_) return close();
      return refuse(408, fmt::format("no complete header within {} s",
                                     context_->settings.header_timeout.count()));
    case Phase::kBody: {
      const auto& settings = context_->settings;
      const auto allowed =
          settings.header_timeout + std::chrono::seconds(body_received_ / kMinBodyBytesPerSecond);
      if (now <= body_began_ + std::min(allowed, settings.body_timeout)) return;
      return refuse(
          408, fmt::format("no complete body: {} bytes came, and it must have {} bytes/s "
                           "after {} s and end within {} s",
                           body_received_, kMinBodyBytesPerSecond, settings.header_timeout.count(),
                           settings.body_timeout.count()));
    }
    default:
      return;
  }
}

void ServerConnection::broken(const std::exception& error) {
  log::error("{}: closed: {}", peer_, error.what());
  close();
}

void ServerConnection::close_if_idle() {
  if (phase_ == Phase::kHandshake || (phase_ == Phase::kHeader && !request_began_)) close();
}

void ServerConnection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();  // the thread's reference ends here
  const bool unanswered = answering();
  if (unanswered) lost_exchange_ = exchange_;
  phase_ = Phase::kClosed;
  gone_.store(true, std::memory_order_release);
  transport_->close();
  thread_->remove(this);
  std::string().swap(pending_);
  context_->unsent.fetch_sub(std::exchange(counted_, 0), std::memory_order_relaxed);
  reserved_.reset();
  const std::function<void()> callback = std::exchange(on_disconnect_, nullptr);
  if (unanswered && callback) callback();
  const std::lock_guard lock(context_->mutex);
  --context_->open;
  if (awaited_) --context_->awaited;
  context_->closed_one.notify_all();
}

}  // namespace saccade::net
