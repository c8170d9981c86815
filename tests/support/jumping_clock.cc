// LD_PRELOAD: a wall clock that jumps by years with every look, and a trap for whoever waits by it.
// The monotonic clock is as ever.
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

namespace {

constexpr time_t kYear = 31'556'952;
std::atomic<unsigned> looks{0};

time_t jump() {
  constexpr time_t kYears[] = {0, 10, -10, 3, -25, 1};
  return kYears[looks++ % 6] * kYear;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t id, timespec* t) {
  const long result = syscall(SYS_clock_gettime, id, t);
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += jump();
  return static_cast<int>(result);
}

time_t time(time_t* out) {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  if (out != nullptr) *out = t.tv_sec;
  return t.tv_sec;
}

int gettimeofday(timeval* out, void*) {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  *out = {t.tv_sec, t.tv_nsec / 1000};
  return 0;
}

// Waits until an instant of the wall clock (other clocks have calls of their own).
int pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*) {
  constexpr char kSaid[] = "a wait by the wall clock\n";
  if (write(STDERR_FILENO, kSaid, sizeof kSaid - 1) >= 0) abort();
  abort();
}

}  // extern "C"
