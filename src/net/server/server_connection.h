// One accepted connection: reads requests one after another, hands each to the handler, writes its
// answer. A callback state machine that lives on one I/O thread. Internal to net/.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/io_thread.h"
#include "net/server/http_server.h"
#include "net/server/request_parser.h"
#include "net/transport.h"

namespace saccade::net {

using SteadyTime = std::chrono::steady_clock::time_point;
using HeaderList = std::vector<std::pair<std::string, std::string>>;

// What all connections of one server share.
struct ServerContext {
  HttpServerSettings settings;
  HttpHandler handler;
  HttpAdmit admit;                        // may be empty
  std::shared_ptr<TlsServerContext> tls;  // null: plain HTTP
  std::atomic<bool> draining{false};
  std::atomic<std::size_t> unsent{0};  // bytes of all connections

  std::mutex mutex;
  std::condition_variable closed_one;
  std::size_t open = 0;     // guarded by mutex
  std::size_t awaited = 0;  // of them, those from before draining began; guarded by mutex
};

// Bytes read and not yet parsed.
class InputBuffer {
 public:
  std::string_view view() const { return {bytes_.data() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  boost::asio::mutable_buffer prepare(std::size_t room);
  void commit(std::size_t bytes) { end_ += bytes; }
  void append(std::string_view bytes);
  void consume(std::size_t bytes);
  void shrink();  // gives back what a large body needed

 private:
  std::vector<char> bytes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// All members on the I/O thread, but for peer_gone(). Requests of one connection are numbered; an
// answer names the request it is for, and is dropped when that is not the current one.
class ServerConnection final : public TransportOwner,
                               public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<ServerContext> context, std::shared_ptr<IoThread> thread,
                   std::unique_ptr<Transport> transport, std::string peer);
  ~ServerConnection() override;

  void start();
  void respond(std::uint64_t exchange, HttpResponse response);
  void start_stream(std::uint64_t exchange, const HeaderList& headers);
  void start_answer(std::uint64_t exchange, const AnswerHead& head);
  void cut(std::uint64_t exchange);
  void write_events(std::uint64_t exchange, std::string_view events);
  void end_stream(std::uint64_t exchange);
  void set_on_disconnect(std::uint64_t exchange, std::function<void()> callback);
  void abandon(std::uint64_t exchange);  // its last Responder died unanswered

  // The edge where exceptions end, memory that cannot be had above all: of a step that threw
  // nothing is left but to close, which cuts this peer off and no other.
  template <typename Step>
  void guarded(Step&& step) {
    try {
      step();
    } catch (const std::exception& error) {
      broken(error);
    }
  }

  void sweep(SteadyTime now);  // closes what is over its time
  void close_if_idle();
  void close();

  IoThread& thread() const { return *thread_; }
  bool peer_gone() const { return gone_.load(std::memory_order_acquire); }  // any thread

 private:
  enum class Phase {
    kHandshake,
    kHeader,     // between requests, or inside a header
    kBody,       // inside a body
    kHandler,    // the handler has the request; reading goes on, to notice the peer leaving
    kStreaming,  // between start_stream() and end_stream()
    kFlushing,   // the answer is complete, and not yet all written
    kLingering,  // we are done; reading what the peer still sends, so that it sees our answer
    kClosed,
  };

  void on_handshake(const error_code& error) override;
  void on_read(const error_code& error, std::size_t bytes) override;
  void on_write(const error_code& error, std::size_t bytes) override;
  void received(const error_code& error, std::size_t bytes);
  void on_reset() override { close(); }

  void begin_request();
  void consume_input();
  // False when the request has been refused.
  bool begin_body();
  bool reserve_chunks();
  void dispatch();
  void refuse(int status, std::string_view why);
  void refuse(HttpResponse response);
  void read_more();
  void on_end_of_input();
  void flush();
  void on_flushed();
  void linger();

  void broken(const std::exception& error);

  bool last_answer() const;
  bool answering() const {
    return phase_ == Phase::kHandler || phase_ == Phase::kStreaming || phase_ == Phase::kFlushing;
  }
  bool current(std::uint64_t exchange, Phase phase) const {
    return exchange == exchange_ && phase_ == phase;
  }
  std::size_t buffered() const { return out_.size() - out_written_ + pending_.size(); }
  bool too_much_unsent(std::size_t more) const;
  void count_unsent();

  std::shared_ptr<ServerContext> context_;
  std::shared_ptr<IoThread> thread_;  // before transport_, whose sockets need its io_context
  std::unique_ptr<Transport> transport_;
  std::string peer_;

  Phase phase_ = Phase::kHandshake;
  std::atomic<bool> gone_{false};
  bool reading_ = false;
  bool writing_ = false;

  bool awaited_ = false;      // counted in ServerContext::awaited
  bool half_closed_ = false;  // the peer has stopped sending

  std::optional<RequestParser> parser_;
  InputBuffer in_;
  // What is read while in_ may change: a body comes into in_ itself.
  std::array<char, 4096> ahead_;
  bool reads_ahead_ = false;
  SteadyTime deadline_;  // of kHandshake, kHeader, kBody, kLingering
  SteadyTime linger_end_;
  SteadyTime body_began_;
  std::size_t body_received_ = 0;
  std::shared_ptr<ByteReservation> reserved_;  // for the body
  bool request_began_ = false;
  bool first_request_ = true;

  std::uint64_t exchange_ = 0;       // number of the current request
  std::uint64_t lost_exchange_ = 0;  // the one whose peer left before its answer was complete
  bool keep_alive_ = true;           // of the current request
  bool head_ = false;
  bool http_1_0_ = false;
  bool chunked_ = false;  // of a stream: its body's framing
  bool events_ = false;   // of a stream: server-sent events, among which a comment may stand
  std::optional<std::uint64_t> left_;  // of a stream of known length: bytes that have not come
  std::function<void()> on_disconnect_;

  std::string out_;  // being written, from out_written_ on
  std::size_t out_written_ = 0;
  std::string pending_;      // gathers behind it
  std::size_t counted_ = 0;  // of them, in ServerContext::unsent
  SteadyTime write_deadline_;
};

}  // namespace saccade::net
