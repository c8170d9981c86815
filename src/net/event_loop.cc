// One turn: posts, timers that are due, events.
#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

namespace saccade::net {

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (epoll_fd < 0 || wake_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0) {
    const int error = errno;
    if (epoll_fd >= 0) close(epoll_fd);
    if (wake_fd >= 0) close(wake_fd);
    return fail(ErrorCode::kUnavailable, "event loop: {}", std::strerror(error));
  }
  return std::unique_ptr<EventLoop>(new EventLoop(epoll_fd, wake_fd));
}

EventLoop::EventLoop(int epoll_fd, int wake_fd)
    : epoll_fd_(epoll_fd), wake_fd_(wake_fd), mailbox_(std::make_shared<Mailbox>()) {
  mailbox_->wake_fd_ = wake_fd;
}

EventLoop::~EventLoop() {
  std::vector<Task> unrun;  // destroyed outside the lock
  {
    const std::lock_guard lock(mailbox_->mutex_);
    mailbox_->wake_fd_ = -1;
    unrun.swap(mailbox_->tasks_);
  }
  close(wake_fd_);
  close(epoll_fd_);
}

void EventLoop::Mailbox::post(Task task) {
  const std::lock_guard lock(mutex_);
  if (wake_fd_ < 0) return;
  tasks_.push_back(std::move(task));
  if (tasks_.size() > 1) return;  // the loop has been woken and has not come by yet
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

void EventLoop::stop() {
  stopped_ = true;
  post([] {});
}

void EventLoop::run() {
  thread_ = std::this_thread::get_id();
  // A peer that went away is an error of one write, not the end of the process.
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  run_posts();
  while (!stopped_) {
    run_due_timers();
    wait();
    dispatch();
  }
  thread_ = std::thread::id();
}

void EventLoop::run_posts() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mailbox_->mutex_);
    tasks.swap(mailbox_->tasks_);
  }
  for (Task& task : tasks) task();
}

void EventLoop::at(Nanos when, Task task, Precision precision) {
  timers_.push_back({when, timers_made_++, precision, std::move(task)});
  std::push_heap(timers_.begin(), timers_.end());
}

void EventLoop::run_due_timers() {
  if (timers_.empty()) return;
  // Those that tasks add while we are here wait for the next turn, or sockets would starve.
  const std::uint64_t made_before = timers_made_;
  const SteadyClock clock;
  Nanos now = clock.now();
  while (!timers_.empty() && timers_.front().when <= now && timers_.front().order < made_before) {
    std::pop_heap(timers_.begin(), timers_.end());
    const Task task = std::move(timers_.back().task);
    timers_.pop_back();
    task();
    now = clock.now();
  }
}

void EventLoop::wait() {
  timespec timeout{};
  const timespec* until = nullptr;  // for ever
  if (!again_.empty()) {
    until = &timeout;
  } else if (!timers_.empty()) {
    const Timer& next = timers_.front();
    const Nanos left = next.when - steady_now();
    const Nanos sleep = next.precision == Precision::kSpin ? left - kSpinTime : left;
    if (sleep > 0) {
      timeout.tv_sec = static_cast<std::time_t>(sleep / kSecond);
      timeout.tv_nsec = static_cast<long>(sleep % kSecond);
    }
    until = &timeout;
  }
  std::array<epoll_event, kMaxEvents> events;
  const int count = epoll_pwait2(epoll_fd_, events.data(), kMaxEvents, until, nullptr);
  fetched_.clear();
  for (int i = 0; i < count; ++i) {
    fetched_.push_back({static_cast<Watcher*>(events[static_cast<std::size_t>(i)].data.ptr),
                        events[static_cast<std::size_t>(i)].events});
  }
}

void EventLoop::dispatch() {
  again_now_.swap(again_);
  bool woken = false;
  // By index: on_ready() may unwatch any watcher, which clears its entry.
  for (std::size_t i = 0; i < fetched_.size(); ++i) {
    if (fetched_[i].watcher != nullptr) {
      fetched_[i].watcher->on_ready(fetched_[i].events);
    } else {
      woken = true;  // the wake descriptor; or an entry just cleared, which costs one look
    }
  }
  fetched_.clear();
  for (std::size_t i = 0; i < again_now_.size(); ++i) {
    if (again_now_[i] != nullptr) again_now_[i]->on_ready(EPOLLIN);
  }
  again_now_.clear();
  if (woken) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read_bytes = read(wake_fd_, &count, sizeof count);
    run_posts();
  }
}

Result<void> EventLoop::watch(int fd, Watcher* watcher) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = watcher;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail(ErrorCode::kUnavailable, "epoll: {}", std::strerror(errno));
  }
  return {};
}

void EventLoop::unwatch(int fd, Watcher* watcher) {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  for (Fetched& event : fetched_) {
    if (event.watcher == watcher) event.watcher = nullptr;
  }
  std::erase(again_, watcher);
  std::replace(again_now_.begin(), again_now_.end(), watcher, static_cast<Watcher*>(nullptr));
}

}  // namespace saccade::net
