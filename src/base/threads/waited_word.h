// A word that threads wait for until it changes: a short spin, then sleep in the kernel.
//
// Not std::atomic::wait: between the two libstdc++ calls sched_yield, which on a crowded machine
// gives the core away for milliseconds, and whoever has yielded is not woken by a change, as a
// sleeper is.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace saccade {

class WaitedWord {
 public:
  // Whoever changes it (seq_cst) calls a wake after that.
  std::atomic<std::uint32_t> value{0};

  // Spins until it is not `old`, for about `patience`; returns what it is.
  std::uint32_t spin(std::uint32_t old, std::chrono::steady_clock::duration patience) const;
  // Returns what it is once that is not `old`. Spins for kIdle before it sleeps.
  std::uint32_t await_change(std::uint32_t old);
  // No system call where nobody sleeps.
  void wake_one() { wake(1); }
  void wake_all() { wake(INT32_MAX); }

  // A decode step issues a few hundred joins some microseconds apart: a sleeping worker would cost
  // more to wake than the kernel takes. An idle server must not burn its cores.
  static constexpr auto kIdle = std::chrono::microseconds(60);

 private:
  void wake(int most);

  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace saccade
