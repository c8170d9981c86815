// The ranks of one model at the same work: a closure forked over a thread each, and joined.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/threads/thread_pool.h"
#include "ops/team/collective.h"

namespace saccade {

// A rank has failed; nothing that the ranks have made since is to be relied on.
class RanksFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A clock on what ranks do at once: who takes longer is ended from a thread of its own.
class RankWatch {
 public:
  RankWatch(Collective& any, std::chrono::milliseconds patience);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;
  void begin() { since_.store(Clock::now().time_since_epoch().count()); }
  void end() { since_.store(kNever); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::rep kNever = 0;
  void watch();

  Collective& any_;
  std::chrono::milliseconds patience_;
  std::atomic<Clock::rep> since_ = kNever;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

// One thread at a time calls; it is rank 0's.
class RankTeam {
 public:
  // collectives: rank r's is element r. patience: how long a run() may take before the ranks are
  // told to give up (Collective::abort, kTimeout), for ranks that wait where nobody else sees them;
  // 0: any time.
  explicit RankTeam(std::vector<std::unique_ptr<Collective>> collectives,
                    std::chrono::milliseconds patience = {});

  int size() const { return pool_.size(); }
  Collective& collective(int rank) { return *collectives_[static_cast<std::size_t>(rank)]; }

  // body(rank) on all ranks at once; returns when all have. Where it throws, the others are told
  // (Collective::abort), so that none of them waits for ever. Throws RanksFailed once any rank has
  // failed, in this call or before it, in the body or in a sum.
  template <typename Body>
  void run(Body&& body) {
    if (const Result<void> went = try_run(std::forward<Body>(body)); !went)
      throw RanksFailed(went.error().message);
  }
  // The same without the throw, for whoever is ending.
  template <typename Body>
  Result<void> try_run(Body&& body) {
    if (watch_) watch_->begin();
    pool_.run([&](int rank) {
      try {
        body(rank);
      } catch (...) {
        give_up(rank);
      }
    });
    if (watch_) watch_->end();
    return status();
  }
  // The reason by which the first rank has failed.
  Result<void> status() const;

 private:
  void give_up(int rank);  // by the exception that is being handled

  std::vector<std::unique_ptr<Collective>> collectives_;
  ThreadPool pool_;
  std::unique_ptr<RankWatch> watch_;  // null: no patience was said
};

}  // namespace saccade
