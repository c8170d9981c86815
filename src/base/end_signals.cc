#include "base/end_signals.h"

#include <cstdlib>
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
  std::thread([set = set_] {
    int second = 0;
    sigwait(&set, &second);
    log::warning("second signal: ending at once");
    std::_Exit(128 + second);
  }).detach();
}

}  // namespace saccade
