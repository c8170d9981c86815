#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade {
namespace {

// A decode step issues a few hundred joins some microseconds apart: a sleeping worker would cost
// more to wake than the kernel takes. An idle server must not burn its cores: after kIdle of
// nothing, workers sleep.
constexpr auto kIdle = std::chrono::microseconds(60);
constexpr int kPausesPerLook = 16;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `word` differs from `old`: spins, then sleeps in the kernel. There is no sched_yield
// between: on a crowded machine it gives the core away for many milliseconds, while a sleeper is
// put back at once when it is woken.
std::uint32_t await_change(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
  using Steady = std::chrono::steady_clock;
  Steady::time_point start{};
  for (int look = 0;; ++look) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      const std::uint32_t now = word.load(std::memory_order_acquire);
      if (now != old) return now;
      pause_cpu();
    }
    if (look == 0) {
      start = Steady::now();
      continue;
    }
    const auto waited = Steady::now() - start;
    if (waited > kIdle) word.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

// One word a cache line: the caller writes `generation`, workers write `running`, and neither
// should make the other's line travel.
struct ThreadPool::State {
  alignas(64) std::atomic<std::uint32_t> generation{0};  // one more for each run()
  alignas(64) std::atomic<std::uint32_t> running{0};     // workers not yet done with this run()
  alignas(64) std::atomic<std::int64_t> ticket{0};
  alignas(64) Erased body = nullptr;  // null: stop
  void* context = nullptr;
  std::vector<std::thread> workers;

  void publish(Erased new_body, void* new_context) {
    body = new_body;
    context = new_context;
    running.store(static_cast<std::uint32_t>(workers.size()), std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_seq_cst);
    generation.notify_all();
  }

  void work(int worker) {
    std::uint32_t seen = 0;
    while (true) {
      seen = await_change(generation, seen);
      if (body == nullptr) return;
      body(context, worker);
      if (running.fetch_sub(1, std::memory_order_seq_cst) == 1) running.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : size_(threads), state_(std::make_unique<State>()) {
  CHECK(threads >= 1, "a pool of {} threads", threads);
  state_->workers.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker)
    state_->workers.emplace_back([state = state_.get(), worker] { state->work(worker); });
}

ThreadPool::~ThreadPool() {
  state_->publish(nullptr, nullptr);
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::run_erased(Erased body, void* context) {
  State& state = *state_;
  if (size_ == 1) return body(context, 0);
  state.publish(body, context);
  body(context, 0);
  for (std::uint32_t left = state.running.load(std::memory_order_acquire); left != 0;)
    left = await_change(state.running, left);
}

void ThreadPool::reset_ticket() { state_->ticket.store(0, std::memory_order_relaxed); }

std::int64_t ThreadPool::take_ticket() {
  return state_->ticket.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace saccade
