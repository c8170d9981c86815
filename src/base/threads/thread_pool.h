// The one compute pool: fork-join over stable worker indices, with a spin barrier, for kernels.
// Blocking work (files, sockets, image decoding) belongs to a WorkerPool, never here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace saccade {

// run() is called by one thread at a time; that caller is worker 0. Workers spin for a short while
// between calls (a decode step makes hundreds), then sleep. On a crowded machine one that was woken
// may not get a processor for milliseconds: the caller, done with its own part, does in its place
// what a worker has not begun (parallel_for and parallel_each; run() is for what each thread has to
// do itself).
class ThreadPool {
 public:
  // threads: total, the caller included; at least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // body(worker) on every worker's own thread, 0 <= worker < size(); returns when all are done.
  // `body` must not throw.
  template <typename Body>
  void run(Body&& body) {
    run_as(Whose::kOwnThread, body);
  }

  // body(begin, end, worker) over a partition of [0, count) into contiguous ranges, at most one a
  // worker, each a multiple of `grain` long but the last. The partition depends on count, grain and
  // size() alone. The caller's thread may be several workers, one after the other.
  template <typename Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    const std::int64_t blocks = (count + grain - 1) / grain;
    if (blocks <= 1 || size_ == 1) {
      if (count > 0) body(std::int64_t{0}, count, 0);
      return;
    }
    run_as(Whose::kAnyThread, [&](int worker) {
      const std::int64_t first = blocks * worker / size_ * grain;
      const std::int64_t last = blocks * (worker + 1) / size_ * grain;
      const std::int64_t end = last < count ? last : count;
      if (first < end) body(first, end, worker);
    });
  }

  // body(item, worker) for each item of [0, count), taken one by one by whoever is free: for uneven
  // work. Which worker takes an item varies from run to run; the item's result must not depend on
  // it.
  template <typename Body>
  void parallel_each(std::int64_t count, Body&& body) {
    if (count <= 1 || size_ == 1) {
      for (std::int64_t item = 0; item < count; ++item) body(item, 0);
      return;
    }
    reset_ticket();
    run_as(Whose::kAnyThread, [&](int worker) {
      for (std::int64_t item = take_ticket(); item < count; item = take_ticket())
        body(item, worker);
    });
  }

 private:
  using Erased = void (*)(void* context, int worker);
  enum class Whose : std::uint8_t { kOwnThread, kAnyThread };

  template <typename Body>
  void run_as(Whose whose, Body&& body) {
    run_erased(
        whose,
        [](void* context, int worker) {
          (*static_cast<std::remove_reference_t<Body>*>(context))(worker);
        },
        const_cast<std::remove_const_t<std::remove_reference_t<Body>>*>(&body));
  }
  void run_erased(Whose whose, Erased body, void* context);
  void reset_ticket();
  std::int64_t take_ticket();

  struct State;
  int size_;
  std::unique_ptr<State> state_;
};

}  // namespace saccade
