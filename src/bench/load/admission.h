// The concurrency cap: who may go now, and who goes when one has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace saccade::bench {

// Any thread. First come, first served.
class Admission {
 public:
  explicit Admission(std::int64_t max_concurrency) : free_(max_concurrency) {}

  // true: `request` has a slot. false: it waits for a release(), or once closed for give_up().
  bool admit(std::uint32_t request) {
    const std::lock_guard lock(mutex_);
    if (free_ > 0 && !closed_) {
      --free_;
      return true;
    }
    waiting_.push_back(request);
    return false;
  }

  // A slot came free: the request that has it now, if any waited; none once closed.
  std::optional<std::uint32_t> release() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty() || closed_) {
      ++free_;
      return std::nullopt;
    }
    const std::uint32_t next = waiting_.front();
    waiting_.pop_front();
    return next;
  }

  // Closes: no request gets a slot from here on. Returns those that wait; called again, those that
  // have come since.
  std::vector<std::uint32_t> give_up() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    std::vector<std::uint32_t> waited(waiting_.begin(), waiting_.end());
    waiting_.clear();
    return waited;
  }

 private:
  std::mutex mutex_;
  std::int64_t free_;                  // guarded by mutex_
  bool closed_ = false;                // guarded by mutex_
  std::deque<std::uint32_t> waiting_;  // guarded by mutex_
};

}  // namespace saccade::bench
