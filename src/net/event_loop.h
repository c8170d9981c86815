// A small event loop over epoll for programs that count microseconds: sockets, timers that spin
// through their last stretch, posts from other threads. Of clients; the server's threads are Asio's
// (io_thread.h), whose timers come when the kernel wakes a sleeper: requests are sent to the
// microsecond, and answered when they are there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace saccade::net {

// One thread calls run(); what says so may be called from any other, everything else from that one
// (or before it starts).
class EventLoop {
 public:
  using Task = std::function<void()>;

  class Watcher {
   public:
    // epoll's bits. Edge-triggered: read (write) until the socket would block, or call again().
    virtual void on_ready(std::uint32_t events) = 0;

   protected:
    ~Watcher() = default;
  };

  // Tasks for the loop. Outlives it, so that a late post is dropped and not a crash.
  class Mailbox {
   public:
    void post(Task task);  // any thread; in order; destroyed unrun once the loop has ended

   private:
    friend class EventLoop;
    std::mutex mutex_;
    std::vector<Task> tasks_;  // guarded by mutex_
    int wake_fd_ = -1;         // guarded by mutex_; -1: closed
  };

  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void run();                                                // until stop()
  void stop();                                               // any thread
  void post(Task task) { mailbox_->post(std::move(task)); }  // any thread
  std::shared_ptr<Mailbox> mailbox() const { return mailbox_; }
  bool on_loop_thread() const { return thread_.load() == std::this_thread::get_id(); }

  // Both directions and the peer's shutdown, once for the life of the descriptor.
  Result<void> watch(int fd, Watcher* watcher);
  // The watcher hears nothing any more, also not of events already fetched.
  void unwatch(int fd, Watcher* watcher);
  // on_ready(EPOLLIN) in the next turn: for a watcher that stopped reading to be fair to others.
  void again(Watcher* watcher) { again_.push_back(watcher); }

  enum class Precision {
    kCoarse,  // late by the scheduler's latency, 0.1 ms or so
    kSpin,    // the loop polls through the last kSpinTime before it
  };
  // At an absolute instant of the SteadyClock; at once (in a later turn) when it has passed.
  void at(Nanos when, Task task, Precision precision = Precision::kCoarse);

  // The kernel wakes a sleeper 50 to 70 us late.
  static constexpr Nanos kSpinTime = 100 * kMicrosecond;

 private:
  struct Timer {
    Nanos when;
    std::uint64_t order;  // of timers due together: first come
    Precision precision;
    Task task;
    bool operator<(const Timer& other) const {  // std::push_heap keeps the largest on top
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  explicit EventLoop(int epoll_fd, int wake_fd);
  void run_posts();
  void run_due_timers();
  void wait();  // fills fetched_
  void dispatch();

  static constexpr int kMaxEvents = 128;  // a turn: more would make timers late

  int epoll_fd_;
  int wake_fd_;
  std::shared_ptr<Mailbox> mailbox_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::thread::id> thread_{};
  std::vector<Timer> timers_;  // heap
  std::uint64_t timers_made_ = 0;
  std::vector<Watcher*> again_;
  std::vector<Watcher*> again_now_;

  struct Fetched {
    Watcher* watcher;  // null: unwatched since
    std::uint32_t events;
  };
  std::vector<Fetched> fetched_;
};

}  // namespace saccade::net
