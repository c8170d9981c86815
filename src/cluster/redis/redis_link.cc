#include "cluster/redis/redis_link.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "cluster/redis/redis_connection.h"

namespace saccade::cluster {
namespace {

// Whoever asks has limits of bytes; this one is for what has none.
constexpr std::size_t kMaxWaiting = 1024;

class RedisLink final : public StoreLink {
 public:
  RedisLink(const StoreAddress& address, const Clock& clock, EventThread& thread)
      : clock_(clock),
        thread_(thread),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        connection_(address, clock, wake_),
        worker_([this] { work(); }) {
    CHECK(wake_ >= 0, "no eventfd");
  }
  ~RedisLink() override {
    stop();
    close(wake_);
  }

  void run(StoreBatch batch, Done done) override {
    const Nanos until = clock_.now() + batch.limit;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      if (waiting_.size() < kMaxWaiting) {
        waiting_.push_back({std::move(batch), std::move(done), until});
        come_.notify_one();
        return;
      }
    }
    thread_.post([done = std::move(done)] {
      done(fail(ErrorCode::kExhausted, "{} batches wait for the store", kMaxWaiting));
    });
  }

  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    come_.notify_one();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
    if (worker_.joinable()) worker_.join();
  }

 private:
  struct Job {
    StoreBatch batch;
    Done done;
    Nanos until = 0;
  };

  void work() {
    while (true) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        come_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        job = std::move(waiting_.front());
        waiting_.pop_front();
      }
      auto replies = std::make_shared<Result<std::vector<StoreReply>>>(
          clock_.now() < job.until
              ? connection_.run(job.batch, job.until)
              : fail(ErrorCode::kTimeout, "its time was up before it could begin"));
      job.batch = {};  // what it held is not needed any more
      thread_.post([done = std::move(job.done), replies] { done(std::move(*replies)); });
    }
  }

  const Clock& clock_;
  EventThread& thread_;
  const int wake_;
  RedisConnection connection_;  // the worker's
  std::mutex mutex_;
  std::condition_variable come_;
  std::deque<Job> waiting_;  // guarded by mutex_
  bool stopping_ = false;    // guarded by mutex_
  std::thread worker_;       // last: uses everything above
};

}  // namespace

std::unique_ptr<StoreLink> make_redis_link(const StoreAddress& address, const Clock& clock,
                                           EventThread& thread) {
  return std::make_unique<RedisLink>(address, clock, thread);
}

}  // namespace saccade::cluster
