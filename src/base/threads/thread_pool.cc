#include "base/threads/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/threads/waited_word.h"

namespace saccade {
namespace {

using Steady = std::chrono::steady_clock;
constexpr auto kIdle = WaitedWord::kIdle;
// How long a worker may take to begin what the caller has done its own part of, where the last ones
// did not begin in time: the machine is crowded.
constexpr auto kCrowded = std::chrono::microseconds(4);

}  // namespace

// One word a cache line: the caller writes `generation`, workers write `running`, and neither
// should make the other's line travel.
struct ThreadPool::State {
  // The last generation of which this worker's part has been taken, by its thread or by the caller.
  // Whoever takes a part of the present one has that run()'s body: it cannot end before the part.
  struct alignas(64) Part {
    std::atomic<std::uint32_t> taken{0};
    bool take(std::uint32_t of) {
      std::uint32_t before = of - 1;
      return taken.compare_exchange_strong(before, of, std::memory_order_acq_rel);
    }
  };

  alignas(64) WaitedWord generation;  // one more for each run()
  alignas(64) WaitedWord running;     // workers not yet done with this run()
  alignas(64) std::atomic<std::int64_t> ticket{0};
  alignas(64) Erased body = nullptr;  // null: stop
  void* context = nullptr;
  Steady::duration patience = kIdle;  // the caller's, before it does what has not been begun
  std::vector<Part> parts;            // of worker i + 1
  std::vector<std::thread> workers;

  explicit State(int threads) {
    CHECK(threads >= 1, "a pool of {} threads", threads);
    parts = std::vector<Part>(static_cast<std::size_t>(threads - 1));
  }

  void publish(Erased new_body, void* new_context) {
    body = new_body;
    context = new_context;
    running.value.store(static_cast<std::uint32_t>(workers.size()), std::memory_order_relaxed);
    generation.value.fetch_add(1, std::memory_order_seq_cst);
    generation.wake_all();
  }

  void work(int worker) {
    std::uint32_t seen = 0;
    while (true) {
      seen = generation.await_change(seen);
      if (!parts[static_cast<std::size_t>(worker - 1)].take(seen)) continue;
      if (body == nullptr) return;
      body(context, worker);
      if (running.value.fetch_sub(1, std::memory_order_seq_cst) == 1) running.wake_one();
    }
  }

  // In the place of workers that have not begun. False: all had.
  bool stand_in() {
    const std::uint32_t now = generation.value.load(std::memory_order_relaxed);
    bool any = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].take(now)) continue;
      any = true;
      body(context, static_cast<int>(i) + 1);
      running.value.fetch_sub(1, std::memory_order_acq_rel);
    }
    return any;
  }
};

ThreadPool::ThreadPool(int threads) : size_(threads), state_(std::make_unique<State>(threads)) {
  state_->workers.reserve(state_->parts.size());
  for (int worker = 1; worker < threads; ++worker)
    state_->workers.emplace_back([state = state_.get(), worker] { state->work(worker); });
}

ThreadPool::~ThreadPool() {
  state_->publish(nullptr, nullptr);
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::run_erased(Whose whose, Erased body, void* context) {
  State& state = *state_;
  if (size_ == 1) return body(context, 0);
  state.publish(body, context);
  body(context, 0);
  std::uint32_t left = state.running.value.load(std::memory_order_acquire);
  if (whose == Whose::kAnyThread && left != 0) {
    const auto end = Steady::now() + state.patience;
    while (left != 0 && Steady::now() < end) left = state.running.spin(left, end - Steady::now());
    if (left != 0) {
      state.patience = state.stand_in() ? kCrowded : kIdle;
      left = state.running.value.load(std::memory_order_acquire);
    } else {
      state.patience = kIdle;
    }
  }
  while (left != 0) left = state.running.await_change(left);
}

void ThreadPool::reset_ticket() { state_->ticket.store(0, std::memory_order_relaxed); }

std::int64_t ThreadPool::take_ticket() {
  return state_->ticket.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace saccade
