#include "base/end_signals.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/log.h"

namespace saccade {

EndSignals::EndSignals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void EndSignals::wait() const {
  int signal = 0;
  sigwait(&set_, &signal);
  end_at_the_next();
}

bool EndSignals::came() const {
  const timespec at_once{};
  if (sigtimedwait(&set_, nullptr, &at_once) < 0) return false;
  end_at_the_next();
  return true;
}

void EndSignals::end_at_the_next() const {
  std::thread([set = set_] {
    int second = 0;
    sigwait(&set, &second);
    log::warning("second signal: ending at once");
    std::_Exit(128 + second);
  }).detach();
}

}  // namespace saccade
