// One event loop a thread; each connection is a small state machine, and one heap says whose write
// is due next.
#include "bench/mock/mock_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <queue>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "bench/mock/mock_answer.h"
#include "bench/mock/mock_listener.h"
#include "net/event_loop.h"
#include "net/server/descriptor_limit.h"

namespace saccade::bench {
namespace {

using net::EventLoop;

constexpr std::size_t kReadBuffer = 256u << 10;
constexpr std::size_t kMaxHead = 64u << 10;
constexpr std::size_t kBodyFront = 16u << 10;  // of a long body, what is looked at
constexpr std::size_t kBodyBack = 4u << 10;
constexpr int kReadsPerTurn = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What follows `name` (with its colon, in any case), without blanks before it.
std::optional<std::string_view> header_value(std::string_view line, std::string_view name) {
  if (line.size() < name.size() || strncasecmp(line.data(), name.data(), name.size()) != 0) {
    return std::nullopt;
  }
  line.remove_prefix(name.size());
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line;
}

// Shared by the threads of one server.
struct Shared {
  MockSettings settings;
  std::atomic<std::uint64_t> connections{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> events{0};
  std::atomic<std::uint64_t> running{0};
  // Of answers streamed to their end.
  std::atomic<std::uint64_t> streams{0};
  std::atomic<std::uint64_t> gaps{0};
  std::atomic<Nanos> in_ttfts{0};
  std::atomic<Nanos> in_gaps{0};
  std::atomic<Nanos> first_request{0};

  // The instant, or the end of the stall when it lies in it.
  Nanos after_stall(Nanos when) const {
    const Nanos from = first_request.load(std::memory_order_relaxed) + settings.stall_at;
    const bool stalled = settings.stall_for > 0 && when >= from && when < from + settings.stall_for;
    return stalled ? from + settings.stall_for : when;
  }

  std::atomic<Nanos> free_at{0};  // the end of the service of all requests so far
  // The end of the service of a request that comes at `when`.
  Nanos after_service(Nanos when) {
    if (settings.service_time == 0) return when;
    Nanos before = free_at.load();
    Nanos end = 0;
    do {
      end = std::max(before, when) + settings.service_time;
    } while (!free_at.compare_exchange_weak(before, end));
    return end;
  }
};

class Worker;

class Connection final : public EventLoop::Watcher {
 public:
  Connection(Worker& worker, std::size_t slot, std::uint64_t number, int fd)
      : worker_(worker), slot_(slot), number_(number), fd_(fd) {}
  ~Connection() { ::close(fd_); }

  void on_ready(std::uint32_t events) override;
  void write_due();  // the instant given to Worker::call_at() has come
  int fd() const { return fd_; }
  std::uint64_t number() const { return number_; }

 private:
  void read();
  bool take(std::string_view bytes);
  bool take_head(std::string_view head);
  void take_body(std::string_view piece);
  void answer();
  void begin_stream();
  void note_times();
  void end_answer();
  bool send(std::string_view a, std::string_view b = {}, std::string_view c = {});
  bool flush();
  void close();

  Worker& worker_;
  std::size_t slot_;
  std::uint64_t number_;  // no other connection of this worker has it
  int fd_;
  bool closed_ = false;
  std::string head_;  // of a request that has not all come
  bool in_body_ = false;
  std::uint64_t body_left_ = 0;
  std::string body_front_;
  std::string body_back_;
  MockRequest request_;

  bool answering_ = false;
  bool running_ = false;  // counted in Shared::running
  std::string held_;      // requests that came before the answer was out
  MockFate fate_ = MockFate::kAnswer;
  int tokens_ = 0;
  int events_ = 0;       // of the answer
  int events_sent_ = 0;  // so far
  bool head_sent_ = false;
  Nanos arrived_ = 0;      // the request's last byte
  Nanos first_token_ = 0;  // its write
  Nanos due_ = 0;          // of the next write
  std::string out_;        // what the kernel did not take
};

// One thread: its loop, its listening socket, its connections.
class Worker final : public EventLoop::Watcher {
 public:
  Worker(Shared& shared, std::unique_ptr<EventLoop> loop, int listen_fd)
      : shared_(shared),
        loop_(std::move(loop)),
        listen_fd_(listen_fd),
        text_(shared.settings),
        read_buffer_(kReadBuffer) {}
  ~Worker() {
    if (thread_.joinable()) {
      loop_->stop();
      thread_.join();
    }
    connections_.clear();
    ::close(listen_fd_);
  }

  Result<void> start() {
    TRY_DO(loop_->watch(listen_fd_, this));
    thread_ = std::thread([this] { loop_->run(); });
    return {};
  }

  void on_ready(std::uint32_t) override {
    while (true) {
      const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
          loop_->at(steady_now() + 10 * kMillisecond, [this] { on_ready(0); });
        }
        return;
      }
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      std::size_t slot = connections_.size();
      if (!free_slots_.empty()) {
        slot = free_slots_.back();
        free_slots_.pop_back();
      } else {
        connections_.emplace_back();
      }
      connections_[slot] = std::make_unique<Connection>(*this, slot, next_number_++, fd);
      if (!loop_->watch(fd, connections_[slot].get())) {
        connections_[slot].reset();
        free_slots_.push_back(slot);
        continue;
      }
      ++shared_.connections;
    }
  }

  // write_due() of the connection in `slot` at this instant, unless it has closed by then.
  void call_at(Nanos when, std::size_t slot) {
    due_.push({when, slot, connections_[slot]->number()});
    arm();
  }

  void closed(std::size_t slot) {
    loop_->unwatch(connections_[slot]->fd(), connections_[slot].get());
    dead_.push_back(std::move(connections_[slot]));  // it is on the stack
    loop_->at(steady_now(), [this] { dead_.clear(); });
    free_slots_.push_back(slot);
  }

  EventLoop& loop() { return *loop_; }
  Shared& shared() { return shared_; }
  MockText& text() { return text_; }
  std::vector<char>& read_buffer() { return read_buffer_; }

 private:
  struct Due {
    Nanos when;
    std::size_t slot;
    std::uint64_t number;
    bool operator>(const Due& other) const { return when > other.when; }
  };

  void arm() {
    if (due_.empty() || (armed_ != 0 && armed_ <= due_.top().when)) return;
    armed_ = due_.top().when;
    const Nanos armed = armed_;
    loop_->at(armed, [this] { run_due(); }, EventLoop::Precision::kSpin);
  }

  void run_due() {
    armed_ = 0;
    const Nanos at = steady_now();
    while (!due_.empty() && due_.top().when <= at) {
      const Due due = due_.top();
      due_.pop();
      Connection* const connection = connections_[due.slot].get();
      if (connection != nullptr && connection->number() == due.number) connection->write_due();
    }
    arm();
  }

  Shared& shared_;
  std::unique_ptr<EventLoop> loop_;
  int listen_fd_;
  MockText text_;
  std::vector<char> read_buffer_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::size_t> free_slots_;
  std::uint64_t next_number_ = 0;
  std::vector<std::unique_ptr<Connection>> dead_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  Nanos armed_ = 0;
  std::thread thread_;
};

void Connection::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0 && !out_.empty() && !flush()) return;
  if (events != EPOLLOUT) read();
}

void Connection::read() {
  std::vector<char>& buffer = worker_.read_buffer();
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t count = recv(fd_, buffer.data(), buffer.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return close();
    if (count < 0) return;
    if (!take({buffer.data(), static_cast<std::size_t>(count)})) return close();
    if (closed_) return;
    if (static_cast<std::size_t>(count) < buffer.size()) return;
  }
  worker_.loop().again(this);
}

// false: not a request that the mock understands, or the connection cannot go on.
bool Connection::take(std::string_view bytes) {
  while (!bytes.empty() && !closed_) {
    if (answering_) {
      held_ += bytes;
      return held_.size() <= kMaxHead;
    }
    if (!in_body_) {
      const std::size_t old_size = head_.size();
      std::string_view head = bytes;
      if (old_size > 0) {
        head_ += bytes;
        head = head_;
      }
      const std::size_t end = head.find("\r\n\r\n");
      if (end == std::string_view::npos) {
        if (old_size == 0) head_ = bytes;
        return head_.size() <= kMaxHead;
      }
      const bool understood = take_head(head.substr(0, end + 2));
      bytes.remove_prefix(end + 4 - old_size);
      head_.clear();
      if (!understood) return false;
    }
    const std::size_t size = std::min<std::uint64_t>(bytes.size(), body_left_);
    take_body(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (body_left_ == 0) answer();
  }
  return true;
}

// `head`: lines, each with its end.
bool Connection::take_head(std::string_view head) {
  request_ = {};
  const std::size_t method_end = head.find(' ');
  const std::size_t target_end = head.find(' ', method_end + 1);
  if (method_end == std::string_view::npos || target_end == std::string_view::npos) return false;
  request_.method = head.substr(0, method_end);
  request_.path = head.substr(method_end + 1, target_end - method_end - 1);
  request_.path.resize(std::min(request_.path.find('?'), request_.path.size()));
  request_.chat = request_.path.ends_with("/chat/completions");
  body_left_ = 0;
  for (std::size_t at = head.find('\n') + 1; at < head.size(); at = head.find('\n', at) + 1) {
    const std::string_view line = head.substr(at, head.find('\r', at) - at);
    if (const auto length = header_value(line, "content-length:")) {
      constexpr std::uint64_t kMaxBody = 1ull << 40;
      for (std::size_t i = 0; i < length->size() && is_digit((*length)[i]); ++i) {
        body_left_ = body_left_ * 10 + static_cast<std::uint64_t>((*length)[i] - '0');
        if (body_left_ > kMaxBody) return false;
      }
    } else if (const auto type = header_value(line, "content-type:")) {
      request_.json = header_value(*type, "application/json").has_value();
    } else if (header_value(line, "transfer-encoding:")) {
      return false;
    }
  }
  request_.body_bytes = body_left_;
  body_front_.clear();
  body_back_.clear();
  in_body_ = true;
  return true;
}

void Connection::take_body(std::string_view piece) {
  body_left_ -= piece.size();
  // The usual case: the whole body in one piece.
  if (body_left_ == 0 && body_front_.empty()) return read_body_fields(piece, request_);
  body_front_ += piece.substr(0, kBodyFront - std::min(body_front_.size(), kBodyFront));
  body_back_ += piece.substr(piece.size() - std::min(piece.size(), kBodyBack));
  if (body_back_.size() > kBodyBack) body_back_.erase(0, body_back_.size() - kBodyBack);
  if (body_left_ == 0) read_body_fields(body_front_ + " " + body_back_, request_);
}

void Connection::answer() {
  in_body_ = false;
  answering_ = true;
  Shared& shared = worker_.shared();
  const MockSettings& settings = shared.settings;
  arrived_ = steady_now();
  fate_ = MockFate::kAnswer;
  const bool completion = request_.path.ends_with("/completions") && request_.method == "POST";
  if (completion && request_.json) {
    const std::uint64_t number = shared.requests++;
    running_ = true;
    ++shared.running;
    if (number == 0) shared.first_request = arrived_;
    fate_ = mock_fate(settings, number);
    tokens_ = request_.max_tokens >= 0 ? request_.max_tokens : settings.tokens;
    events_ = std::max(1, (tokens_ + settings.tokens_per_event - 1) / settings.tokens_per_event);
    if (fate_ == MockFate::kHang) return;
    return begin_stream();
  }
  std::string text;
  if (completion) {  // as vLLM, which reads no body of another type
    text = http_answer(
        415, "application/json",
        R"({"error":{"message":"Unsupported Media Type: Only 'application/json' is allowed",)"
        R"("type":"UnsupportedMediaType","param":null,"code":415}})");
  } else if (request_.path == "/v1/models") {
    text = worker_.text().models();
  } else if (request_.path == "/metrics") {
    text = http_answer(200, "text/plain; version=0.0.4",
                       fmt::format("# TYPE vllm:num_requests_running gauge\n"
                                   "vllm:num_requests_running{{model_name=\"{0}\"}} {1}.0\n"
                                   "# TYPE vllm:request_success_total counter\n"
                                   "vllm:request_success_total{{model_name=\"{0}\"}} {2}.0\n",
                                   settings.model, shared.running.load(), shared.requests.load()));
  } else if (request_.path == "/health" || request_.path == "/ping" ||
             request_.path.starts_with("/reset_")) {
    text = http_answer(200, "text/plain", "");
  } else {
    text = http_answer(404, "application/json", R"({"error":{"message":"Not Found","code":404}})");
  }
  if (send(text)) end_answer();
}

// Plans the first write of a completion, streamed or not.
void Connection::begin_stream() {
  const MockSettings& settings = worker_.shared().settings;
  events_sent_ = 0;
  head_sent_ = false;
  const Nanos from = worker_.shared().after_service(worker_.shared().after_stall(steady_now()));
  Nanos wait = settings.ttft;
  if (!request_.stream) wait += settings.itl * (events_ - 1);
  if (fate_ == MockFate::kHttpError || fate_ == MockFate::kHtml) wait = 0;
  const bool role_first = settings.role_chunk && request_.stream && request_.chat &&
                          fate_ != MockFate::kHttpError && fate_ != MockFate::kHtml;
  if (role_first) {
    head_sent_ = true;
    if (!send(worker_.text().stream_head(), worker_.text().role_event())) return;
    ++worker_.shared().events;
  }
  due_ = worker_.shared().after_stall(from + wait);
  if (due_ > steady_now()) return worker_.call_at(due_, slot_);
  write_due();
}

void Connection::write_due() {
  Shared& shared = worker_.shared();
  const MockSettings& settings = shared.settings;
  MockText& text = worker_.text();
  if (fate_ == MockFate::kHttpError || fate_ == MockFate::kHtml || !request_.stream) {
    const std::string whole =
        fate_ == MockFate::kHttpError
            ? http_answer(
                  settings.http_error_status, "application/json",
                  R"({"error":{"message":"programmed failure","type":"InternalServerError",)"
                  R"("param":null,"code":500}})")
        : fate_ == MockFate::kHtml
            ? http_answer(200, "text/html", "<html><body>Hello</body></html>")
            : text.json_answer(request_, tokens_);
    if (fate_ == MockFate::kCut) {
      if (send(std::string_view(whole).substr(0, whole.size() / 2))) close();
      return;
    }
    if (send(whole)) end_answer();
    return;
  }
  while (true) {
    // All but the last event are alike; the last one comes with the tail.
    const bool endless = fate_ == MockFate::kEndless;
    int count = settings.events_per_write;
    if (!endless) count = std::min(count, events_ - events_sent_);
    const bool broken_here = (fate_ == MockFate::kCut || fate_ == MockFate::kError) &&
                             events_sent_ + count > events_ / 2;
    const bool last = !endless && events_sent_ + count == events_ && !broken_here;
    const int plain = last ? count - 1 : count;
    std::string made;
    std::string_view burst;
    if (plain > 0 && request_.continuous_usage) {
      burst = made = text.counted_burst(request_, events_sent_, plain);
    } else if (plain > 0) {
      burst = text.burst(request_.chat, plain);
    }
    const std::string tail = last ? text.tail(request_, tokens_)
                             : broken_here && fate_ == MockFate::kError ? text.error_tail()
                                                                        : std::string();
    const std::string_view head = head_sent_ ? std::string_view() : text.stream_head();
    head_sent_ = true;
    if (events_sent_ == 0) first_token_ = steady_now();
    if (!send(head, burst, tail)) return;
    events_sent_ += count;
    shared.events.fetch_add(static_cast<std::uint64_t>(count), std::memory_order_relaxed);
    if (broken_here && fate_ == MockFate::kCut) return close();
    if (last) note_times();
    if (last || broken_here) return end_answer();
    due_ = shared.after_stall(due_ + settings.itl * settings.events_per_write);
    // An endless answer without gaps must leave the loop to others, and wait for its reader.
    if (endless && settings.itl == 0) due_ = steady_now() + 10 * kMicrosecond;
    if (endless && out_.size() > kReadBuffer) due_ = steady_now() + kMillisecond;
    if (due_ > steady_now()) return worker_.call_at(due_, slot_);
  }
}

// Of an answer that has all been written.
void Connection::note_times() {
  Shared& shared = worker_.shared();
  ++shared.streams;
  shared.in_ttfts += first_token_ - arrived_;
  shared.gaps += static_cast<std::uint64_t>(events_ - 1);
  shared.in_gaps += steady_now() - first_token_;
}

void Connection::end_answer() {
  answering_ = false;
  if (std::exchange(running_, false)) --worker_.shared().running;
  if (held_.empty()) return;
  const std::string held = std::exchange(held_, {});
  if (!take(held)) close();
}

// In one system call when nothing is waiting. false: the connection was closed.
bool Connection::send(std::string_view a, std::string_view b, std::string_view c) {
  std::size_t sent = 0;
  if (out_.empty()) {
    std::array<iovec, 3> pieces{iovec{const_cast<char*>(a.data()), a.size()},
                                iovec{const_cast<char*>(b.data()), b.size()},
                                iovec{const_cast<char*>(c.data()), c.size()}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t count = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) {
      close();
      return false;
    }
    sent = count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  for (const std::string_view piece : {a, b, c}) {
    const std::size_t skipped = std::min(sent, piece.size());
    sent -= skipped;
    out_ += piece.substr(skipped);
  }
  return true;
}

bool Connection::flush() {
  const ssize_t count = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
  if (count < 0 && errno != EAGAIN) {
    close();
    return false;
  }
  if (count > 0) out_.erase(0, static_cast<std::size_t>(count));
  return true;
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  if (std::exchange(running_, false)) --worker_.shared().running;
  answering_ = false;
  worker_.closed(slot_);
}

class ThreadedMock final : public MockServer {
 public:
  explicit ThreadedMock(const MockSettings& settings) { shared_.settings = settings; }

  Result<void> start() {
    port_ = shared_.settings.port;
    const int threads = std::max(1, shared_.settings.threads);
    for (int i = 0; i < threads; ++i) {
      TRY(const int fd, listen_on(shared_.settings.host, port_, threads > 1));
      if (port_ == 0) port_ = port_of(fd);
      auto loop = EventLoop::create();
      if (!loop) {
        ::close(fd);
        return fail(loop.error());
      }
      workers_.push_back(std::make_unique<Worker>(shared_, *std::move(loop), fd));
    }
    for (const auto& worker : workers_) TRY_DO(worker->start());
    return {};
  }

  std::uint16_t port() const override { return port_; }
  MockCounts counts() const override {
    const auto mean_ms = [](Nanos sum, std::uint64_t count) {
      return count == 0 ? 0 : static_cast<double>(sum) / 1e6 / static_cast<double>(count);
    };
    return {shared_.connections.load(), shared_.requests.load(), shared_.events.load(),
            mean_ms(shared_.in_ttfts, shared_.streams), mean_ms(shared_.in_gaps, shared_.gaps)};
  }

 private:
  Shared shared_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

MockFate mock_fate(const MockSettings& settings, std::uint64_t request_number) {
  const double draw =
      static_cast<double>(hash_combine(settings.seed, request_number) >> 11) * 0x1.0p-53;
  double below = 0;
  for (const auto& [share, fate] : {std::pair{settings.http_error_share, MockFate::kHttpError},
                                    {settings.html_share, MockFate::kHtml},
                                    {settings.cut_share, MockFate::kCut},
                                    {settings.error_share, MockFate::kError},
                                    {settings.endless_share, MockFate::kEndless},
                                    {settings.hang_share, MockFate::kHang}}) {
    below += share;
    if (draw < below) return fate;
  }
  return MockFate::kAnswer;
}

Result<std::unique_ptr<MockServer>> MockServer::start(const MockSettings& settings) {
  if (settings.tokens_per_event < 1 || settings.events_per_write < 1 || settings.tokens < 0) {
    return fail(ErrorCode::kInvalid,
                "mock server: tokens per event and events per write are at least 1");
  }
  net::raise_descriptor_limit();
  auto server = std::make_unique<ThreadedMock>(settings);
  TRY_DO(server->start());
  return server;
}

}  // namespace saccade::bench
