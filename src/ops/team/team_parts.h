// What a team's device hands out: the same of every rank's device.
#pragma once

#include <memory>
#include <vector>

#include "ops/device.h"
#include "ops/team/rank_team.h"

namespace saccade {

class TeamWeight final : public PackedWeight {
 public:
  TeamWeight(RankTeam& team, std::vector<std::unique_ptr<PackedWeight>> weights);  // [ranks]
  ~TeamWeight() override;
  std::size_t bytes() const override { return weights_.front()->bytes(); }  // of a rank
  DType operand_dtype() const override { return weights_.front()->operand_dtype(); }
  const PackedWeight& of(int rank) const { return *weights_[static_cast<std::size_t>(rank)]; }

 private:
  RankTeam& team_;
  std::vector<std::unique_ptr<PackedWeight>> weights_;
};

struct TeamCounts final : TokenCounts {
  std::vector<std::unique_ptr<TokenCounts>> of_ranks;
};

struct TeamAttentionPlan final : AttentionPlan {
  using AttentionPlan::AttentionPlan;
  std::vector<const AttentionPlan*> of_ranks;  // the ranks' streams'
};

struct TeamSegmentPlan final : SegmentPlan {
  using SegmentPlan::SegmentPlan;
  std::vector<const SegmentPlan*> of_ranks;
};

}  // namespace saccade
