#include "ops/team/rank_team.h"

#include <algorithm>
#include <exception>
#include <string>

#include "base/check.h"

namespace saccade {

RankWatch::RankWatch(Collective& any, std::chrono::milliseconds patience)
    : any_(any), patience_(patience), thread_([this] { watch(); }) {}

RankWatch::~RankWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RankWatch::watch() {
  const auto look =
      std::max<std::chrono::milliseconds>(patience_ / 8, std::chrono::milliseconds(1));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, look, [this] { return ended_; })) {
    const Clock::rep since = since_.load();
    if (since == kNever) continue;
    const auto taken = Clock::now().time_since_epoch() - Clock::duration(since);
    if (taken < patience_) continue;
    any_.abort({ErrorCode::kTimeout,
                fmt::format("{} ranks did not come back from a call within {} s", any_.ranks(),
                            static_cast<double>(patience_.count()) / 1e3),
                {}});
    return;
  }
}

RankTeam::RankTeam(std::vector<std::unique_ptr<Collective>> collectives,
                   std::chrono::milliseconds patience)
    : collectives_(std::move(collectives)), pool_(static_cast<int>(collectives_.size())) {
  for (int rank = 0; rank < size(); ++rank)
    CHECK(collective(rank).rank() == rank && collective(rank).ranks() == size(),
          "rank {} of {} stands for rank {} of {}", collective(rank).rank(),
          collective(rank).ranks(), rank, size());
  if (patience.count() > 0) watch_ = std::make_unique<RankWatch>(collective(0), patience);
}

void RankTeam::give_up(int rank) {
  std::string why = "an exception of no known kind";
  try {
    throw;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  collective(rank).abort(
      {ErrorCode::kInternal, fmt::format("rank {} of {}: {}", rank, size(), why), {}});
}

Result<void> RankTeam::status() const {
  for (const auto& each : collectives_) TRY_DO(each->status());
  return {};
}

}  // namespace saccade
