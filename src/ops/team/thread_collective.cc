#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/threads/waited_word.h"
#include "ops/device.h"
#include "ops/team/collective.h"

namespace saccade {
namespace {

// Where all ranks arrive before any goes on, until one gives up: then nobody waits here any more.
class Meeting {
 public:
  explicit Meeting(int ranks) : views(static_cast<std::size_t>(ranks)), ranks_(ranks) {}

  // True: all have arrived, and each of them is told so. False: somebody has given up before.
  bool arrive() {
    const std::uint32_t round = round_.value.load();
    if ((round & kGivenUp) != 0) return false;
    if (arrived_.fetch_add(1) + 1 < ranks_)
      return (round_.await_change(round) & ~kGivenUp) != round;
    arrived_.store(0);
    std::uint32_t expected = round;
    const bool all = round_.value.compare_exchange_strong(expected, (round + 1) & ~kGivenUp);
    round_.wake_all();
    return all;
  }
  // All who have arrived leave together, whoever gives up meanwhile: they use each other's memory.
  void leave() {
    const std::uint32_t round = left_.value.load();
    if (leaving_.fetch_add(1) + 1 < ranks_) {
      left_.await_change(round);
      return;
    }
    leaving_.store(0);
    left_.value.fetch_add(1);
    left_.wake_all();
  }

  void give_up(Error why) {
    {
      const std::lock_guard lock(mutex_);
      if (!why_) why_ = std::move(why);
    }
    round_.value.fetch_or(kGivenUp);
    round_.wake_all();
  }
  Result<void> status() const {
    const std::lock_guard lock(mutex_);
    if (!why_) return {};
    return fail(*why_);
  }

  std::vector<View> views;  // each rank's, written by itself before it arrives

 private:
  static constexpr std::uint32_t kGivenUp = 1U << 31;

  WaitedWord round_;  // meetings so far, and kGivenUp
  std::atomic<int> arrived_ = 0;
  WaitedWord left_;  // meetings that all have left
  std::atomic<int> leaving_ = 0;
  int ranks_;
  mutable std::mutex mutex_;
  std::optional<Error> why_;
};

class ThreadCollective final : public Collective {
 public:
  ThreadCollective(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(meeting_->views.size()); }

  // Each rank adds up its share of the rows and writes the sums to everybody: nobody else touches
  // them between arriving and leaving.
  void all_reduce(View x, Stream& stream) override {
    CHECK(x.dtype() == DType::kF32, "all_reduce of {}", name_of(x.dtype()));
    stream.synchronize();
    std::vector<View>& views = meeting_->views;
    views[static_cast<std::size_t>(rank_)] = x;
    if (!meeting_->arrive()) return;
    const std::int64_t share = (x.rows() * x.cols() + ranks() - 1) / ranks();
    const std::int64_t end = std::min((rank_ + 1) * share, x.rows() * x.cols());
    for (std::int64_t i = rank_ * share; i < end; ++i) {
      float sum = 0;
      for (const View& view : views) {
        CHECK(view.rows() == x.rows() && view.cols() == x.cols(), "all_reduce of {}x{} and {}x{}",
              view.rows(), view.cols(), x.rows(), x.cols());
        sum += view.row<float>(i / x.cols())[i % x.cols()];
      }
      for (const View& view : views) view.row<float>(i / x.cols())[i % x.cols()] = sum;
    }
    meeting_->leave();
  }

  void abort(Error why) override { meeting_->give_up(std::move(why)); }
  Result<void> status() const override { return meeting_->status(); }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> make_thread_collectives(int ranks) {
  CHECK(ranks > 0, "{} ranks", ranks);
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::unique_ptr<Collective>> collectives;
  collectives.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    collectives.push_back(std::make_unique<ThreadCollective>(meeting, rank));
  return collectives;
}

}  // namespace saccade
