// How a program that serves is told to end: SIGINT or SIGTERM, taken by the thread that waits for
// them; a second one ends it at once.
#pragma once

#include <csignal>

namespace saccade {

class EndSignals {
 public:
  // Blocks them, and ignores SIGPIPE. Before other threads begin: they inherit the mask.
  EndSignals();
  // Returns at the first one. From then on the next ends the process.
  void wait() const;

 private:
  sigset_t set_;
};

}  // namespace saccade
