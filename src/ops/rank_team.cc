#include "ops/rank_team.h"

#include <exception>
#include <string>

#include "base/check.h"

namespace saccade {

RankTeam::RankTeam(std::vector<std::unique_ptr<Collective>> collectives)
    : collectives_(std::move(collectives)), pool_(static_cast<int>(collectives_.size())) {
  for (int rank = 0; rank < size(); ++rank)
    CHECK(collective(rank).rank() == rank && collective(rank).ranks() == size(),
          "rank {} of {} stands for rank {} of {}", collective(rank).rank(),
          collective(rank).ranks(), rank, size());
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
