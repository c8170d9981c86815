#include "base/threads/end_signals.h"

#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace saccade {
namespace {

constexpr int kDiedOfSignal = 128;  // as shells say it

std::atomic<bool> stop_asked{false};
std::atomic<pid_t> started_group{0};

// By the signal itself, so that whoever waits sees it; the first process of a container has to
// exit.
[[noreturn]] void end_of(int signal) {
  if (const pid_t group = started_group.load(); group > 0) kill(-group, SIGTERM);
  std::signal(signal, SIG_DFL);
  sigset_t these;
  sigemptyset(&these);
  sigaddset(&these, signal);
  pthread_sigmask(SIG_UNBLOCK, &these, nullptr);
  raise(signal);
  _exit(kDiedOfSignal + signal);
}

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void hear_end_signals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    // A shell's background job is to ignore SIGINT.
    if (std::signal(signal, [](int came) { end_of(came); }) == SIG_IGN)
      std::signal(signal, SIG_IGN);
  }
}

void stop_in_order() {
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int came) {
      if (stop_asked.exchange(true)) end_of(came);
    });
}

std::atomic<bool>& stop_flag() { return stop_asked; }

void end_along(pid_t group) { started_group.store(group); }

struct EndSignals::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;  // this and the rest: guarded by mutex
  int came = 0;
  bool told = false;

  void listen() {
    const sigset_t set = end_signals();
    while (true) {
      int signal = 0;
      if (sigwait(&set, &signal) != 0) continue;
      const std::lock_guard lock(mutex);
      if (!ready) {
        log::info("ended before it was ready");
        end_of(signal);
      }
      if (came != 0) {
        log::warning("second signal: ending at once");
        std::_Exit(kDiedOfSignal + signal);
      }
      came = signal;
      changed.notify_all();
    }
  }
};

EndSignals::EndSignals() : state_(std::make_shared<State>()) {
  const sigset_t set = end_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::thread([state = state_] { state->listen(); }).detach();
}

void EndSignals::ready() const {
  const std::lock_guard lock(state_->mutex);
  state_->ready = true;
}

void EndSignals::wait() const {
  ready();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->came != 0; });
}

bool EndSignals::came() const {
  ready();
  const std::lock_guard lock(state_->mutex);
  return state_->came != 0 && !std::exchange(state_->told, true);
}

void EndSignals::end_within(std::chrono::seconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    log::warning("still at work {} s after the last answer: ending at once", limit.count());
    std::_Exit(1);
  }).detach();
}

}  // namespace saccade
