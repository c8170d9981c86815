#include "base/clock.h"

#include <ctime>

namespace saccade {
namespace {

Nanos read_clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<Nanos>(t.tv_sec) * kSecond + t.tv_nsec;
}

}  // namespace

Nanos steady_now() { return read_clock(CLOCK_MONOTONIC); }

Nanos wall_clock_now() { return read_clock(CLOCK_REALTIME); }

}  // namespace saccade
