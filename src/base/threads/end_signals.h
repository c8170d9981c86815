// How a program that serves is told to end: SIGINT or SIGTERM. Until it is ready one ends it at
// once; then the first lets it end in order, and a second ends it at once.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>

namespace saccade {

// The first line of main(): from here on the signals end the process, also as the first process of
// a container, where they would do nothing by themselves. What is interrupted is not told.
void hear_end_signals();

// For a command that ends by itself. From here on the first signal sets stop_flag() alone, and the
// command ends in order; a second one ends the process at once. To be called when there is
// something to keep, and no sooner: what only waits (for a pipe, a server) need not look at a flag.
void stop_in_order();
std::atomic<bool>& stop_flag();
// A group of processes that this one started, which is told to end (SIGTERM) where a signal ends
// this one at once; 0: none.
void end_along(pid_t group);

class EndSignals {
 public:
  // Takes them over, and ignores SIGPIPE. Before other threads begin: they inherit the mask.
  EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // From here on the first one ends the process in order. Before anybody is told that it is ready.
  void ready() const;
  // Returns at the first one. Ready.
  void wait() const;
  // Whether the first one has come, without waiting; true once. Ready.
  bool came() const;

  // What was served has ended: the process does too within `limit`, whoever still works on what
  // nobody waits for. Its exit status is then 1, and a line is logged.
  static void end_within(std::chrono::seconds limit);

 private:
  struct State;
  std::shared_ptr<State> state_;  // with the thread that listens
};

}  // namespace saccade
