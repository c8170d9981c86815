#include <algorithm>
#include <barrier>

#include "base/check.h"
#include "ops/collective.h"

namespace saccade {
namespace {

struct Meeting {
  explicit Meeting(int ranks) : barrier(ranks), views(static_cast<std::size_t>(ranks)) {}
  std::barrier<> barrier;
  std::vector<View> views;  // each rank's, written by itself between two arrivals
};

class ThreadCollective final : public Collective {
 public:
  ThreadCollective(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(meeting_->views.size()); }

  // Each rank adds up its share of the rows and writes the sums to everybody: nobody else touches
  // them between the two arrivals.
  void all_reduce(View x) override {
    CHECK(x.dtype() == DType::kF32, "all_reduce of {}", name_of(x.dtype()));
    std::vector<View>& views = meeting_->views;
    views[static_cast<std::size_t>(rank_)] = x;
    meeting_->barrier.arrive_and_wait();
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
    meeting_->barrier.arrive_and_wait();
  }

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
