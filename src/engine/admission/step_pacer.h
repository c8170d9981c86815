// Keeps steps to the latency target: learns what they take, says before each how much prefill it
// may have, and after the forward whether the encoder may go on. Times are given to it.
#pragma once

#include "engine/admission/scheduler.h"
#include "engine/admission/step_budget.h"
#include "engine/admission/step_time_model.h"

namespace saccade {

class StepPacer {
 public:
  // target_seconds, decode_share: as StepBudget has them.
  // max_prefill: tokens of a step, whatever the target.
  StepPacer(double target_seconds, double decode_share, std::int64_t max_prefill)
      : target_(target_seconds), max_prefill_(max_prefill), budget_(target_seconds, decode_share) {}

  // Before a step. stage_seconds: of the encoder's next stage as predicted, 0 where nobody knows.
  StepLimits begin(const Scheduler& scheduler, bool encoding, double stage_seconds);
  // The plan's forward and sampling took so long.
  void forwarded(const StepPlan& plan, double seconds);
  // Whether the encoder does one more stage in this step, of predicted length.
  bool another_stage(double stage_seconds) const {
    return budget_.another_stage(shares_, spent_, stage_seconds);
  }
  // How long that may take.
  double encoder_room() const { return budget_.encoder_room(shares_, spent_); }
  void staged(double seconds);
  void end() { budget_.settle(outlook_, shares_, spent_); }

  // Tokens that a step of those that decode gives in the time that a row more adds to it, of `more`
  // on average; 0 while nothing is known.
  double row_price(const Scheduler& scheduler, std::int64_t more) const;
  // Tokens that such a step gives in the time of `seconds`; 0 while nothing is known.
  double tokens_in(const Scheduler& scheduler, double seconds) const;

 private:
  double target_;
  std::int64_t max_prefill_;
  StepTimeModel step_time_;
  StepBudget budget_;
  // Of the step in progress.
  StepBudget::Outlook outlook_;
  StepBudget::Shares shares_;
  StepBudget::Spent spent_;
};

}  // namespace saccade
