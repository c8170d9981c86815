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
  // Whether the first one has come, without waiting; true once. The next then ends the process too.
  bool came() const;

 private:
  void end_at_the_next() const;

  sigset_t set_;
};

}  // namespace saccade
