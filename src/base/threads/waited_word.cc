#include "base/threads/waited_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade {
namespace {

using Steady = std::chrono::steady_clock;
constexpr int kPausesPerLook = 16;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<std::uint32_t>) == 4, "a futex is four bytes");

}  // namespace

std::uint32_t WaitedWord::spin(std::uint32_t old, Steady::duration patience) const {
  Steady::time_point start{};
  for (int look = 0;; ++look) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      const std::uint32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      pause_cpu();
    }
    if (look == 0) {
      start = Steady::now();
    } else if (Steady::now() - start > patience) {
      return old;
    }
  }
}

// The kernel compares once more before it lets a thread sleep, and whoever changes the word looks
// for sleepers after that: one of the two sees the other.
std::uint32_t WaitedWord::await_change(std::uint32_t old) {
  while (true) {
    const std::uint32_t now = spin(old, kIdle);
    if (now != old) return now;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void WaitedWord::wake(int most) {
  if (sleepers_.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, most, nullptr, nullptr, 0);
}

}  // namespace saccade
