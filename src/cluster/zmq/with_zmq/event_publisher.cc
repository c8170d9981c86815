#include "cluster/zmq/event_publisher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>
#include <zmq.hpp>

#include "base/log.h"

namespace saccade::cluster {
namespace {

// A step's events come one by one; those of a few milliseconds are one batch.
constexpr std::chrono::milliseconds kGathering(2);
constexpr std::uint64_t kEndOfReplay = ~std::uint64_t{0};

std::string eight_bytes(std::uint64_t value) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

void send(zmq::socket_t& socket, std::string_view bytes, zmq::send_flags flags) {
  socket.send(zmq::buffer(bytes), flags);
}

class ZmqPublisher final : public EventPublisher {
 public:
  explicit ZmqPublisher(CacheEventSettings settings)
      : settings_(std::move(settings)),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        log_(settings_.max_queue_size, [this] { wake(); }),
        publisher_(context_, zmq::socket_type::pub),
        replay_(context_, zmq::socket_type::router) {
    for (zmq::socket_t* socket : {&publisher_, &replay_}) {
      socket->set(zmq::sockopt::linger, 0);
      socket->set(zmq::sockopt::sndhwm, settings_.high_water_mark);
      socket->set(zmq::sockopt::ipv6, true);
    }
    is_bound(settings_.endpoint) ? publisher_.bind(settings_.endpoint)
                                 : publisher_.connect(settings_.endpoint);
    if (!settings_.replay_endpoint.empty()) replay_.bind(settings_.replay_endpoint);
    thread_ = std::thread([this] { run(); });
  }
  ~ZmqPublisher() override {
    ending_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
    close(wake_);
  }

  CacheObserver& observer() override { return log_; }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    // Full, it is awake.
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  }

  void run() {
    zmq::pollitem_t items[] = {{nullptr, wake_, ZMQ_POLLIN, 0},
                               {replay_.handle(), 0, ZMQ_POLLIN, 0}};
    while (!ending_) {
      try {
        zmq::poll(items, 2, std::chrono::milliseconds(-1));
        if ((items[0].revents & ZMQ_POLLIN) != 0) publish();
        if ((items[1].revents & ZMQ_POLLIN) != 0) send_again();
      } catch (const zmq::error_t& error) {
        if (error.num() == EINTR) continue;
        log::error("events of the cache end: {}", error.what());
        return;
      }
    }
  }

  void publish() {
    std::this_thread::sleep_for(kGathering);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_, &count, sizeof count);
    const std::vector<CacheEvent> events = log_.take();
    if (const std::uint64_t dropped = log_.dropped(); dropped > told_) {
      log::warning(
          "{} events of the cache were not sent in time: subscribers are told that it is "
          "empty",
          dropped - told_);
      told_ = dropped;
    }
    if (events.empty()) return;
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::string batch = packed(events, now);
    send(publisher_, settings_.topic, zmq::send_flags::sndmore);
    send(publisher_, eight_bytes(next_), zmq::send_flags::sndmore);
    send(publisher_, batch, zmq::send_flags::none);
    if (!settings_.replay_endpoint.empty()) {
      sent_.emplace_back(next_, std::move(batch));
      if (sent_.size() > settings_.buffer_steps) sent_.pop_front();
    }
    ++next_;
  }

  // [who][][first sequence] is answered with [who][][sequence][batch] as often as there are.
  void send_again() {
    std::vector<std::string> frames;
    zmq::message_t frame;
    do {
      if (!replay_.recv(frame, zmq::recv_flags::dontwait)) return;
      frames.push_back(frame.to_string());
    } while (frame.more());
    if (frames.size() != 3 || frames[2].size() != sizeof(std::uint64_t)) {
      log::warning("a replay is asked for by {} frames", frames.size());
      return;
    }
    std::uint64_t from = 0;
    for (const char byte : frames[2]) from = from << 8 | static_cast<unsigned char>(byte);
    const auto answer = [&](std::uint64_t sequence, std::string_view batch) {
      send(replay_, frames[0], zmq::send_flags::sndmore);
      send(replay_, "", zmq::send_flags::sndmore);
      send(replay_, eight_bytes(sequence), zmq::send_flags::sndmore);
      send(replay_, batch, zmq::send_flags::none);
    };
    for (const auto& [sequence, batch] : sent_)
      if (sequence >= from) answer(sequence, batch);
    answer(kEndOfReplay, "");
  }

  const CacheEventSettings settings_;
  const int wake_;
  CacheEventLog log_;
  zmq::context_t context_;
  zmq::socket_t publisher_;  // of thread_ once it runs
  zmq::socket_t replay_;     // likewise
  std::deque<std::pair<std::uint64_t, std::string>> sent_;
  std::uint64_t next_ = 0;
  std::uint64_t told_ = 0;  // of the dropped
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<EventPublisher>> EventPublisher::create(const CacheEventSettings& settings) {
  try {
    auto publisher = std::make_unique<ZmqPublisher>(settings);
    log::info("events of the prefix cache at {}{}{}", settings.endpoint,
              settings.replay_endpoint.empty() ? "" : ", again at ", settings.replay_endpoint);
    if (settings.endpoint.starts_with("tcp://*") || settings.endpoint.starts_with("tcp://0.0.0.0"))
      log::warning("{}: whoever reaches this port reads the token ids of all prompts",
                   settings.endpoint);
    return publisher;
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::kUnavailable, "--kv-events-config {} {}: {}", settings.endpoint,
                settings.replay_endpoint, error.what());
  }
}

}  // namespace saccade::cluster
