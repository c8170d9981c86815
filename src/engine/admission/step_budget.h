// How a step's time is shared between the sequences that decode, prompts, and images, so that the
// time between two tokens keeps to a target. Decides alone: no clock, no tensors; what things take
// is predicted or measured by others.
//
// Decode rows always run. What the target leaves is for prompts and images:
//
//   room = target - predicted time of the decode rows alone - overdraft
//
// - If both want it they take turns, whoever has had less time first, and the other gets the rest.
// - An encoder stage cannot be cut, and a prefill below its smallest chunk is not worth a step. Who
//   has its turn does one of these even if the room is smaller; what the step then takes too long
//   is an overdraft that later steps save. So the mean keeps to the target, and one step goes over
//   it by one stage or one smallest chunk at most.
// - Where the target leaves no room, every kPatience steps one of them goes on all the same: any
//   image and any prompt ends after finitely many steps.
//
// Without a target, a share of a step's time is reserved for decoding, so that a long prompt does
// not stop it: prefill may add kPiece, or what the share leaves beside the decode rows' time if
// that is more, and the smallest chunk always. With a share of 0, or while nobody decodes, prefills
// are not limited. The encoder has as much time as forwards take, or all of it where there is no
// forward. What it may take adds up from step to step, so that short steps are not followed by a
// long piece each; what it took too long it has less of later.
#pragma once

#include <limits>

namespace saccade {

class StepBudget {
 public:
  static constexpr int kPatience = 8;          // steps
  static constexpr double kLeastPiece = 5e-3;  // seconds of the encoder that are worth stopping for
  static constexpr double kPiece = 0.05;       // seconds of prefill that are worth a step

  // What a step could do. Seconds.
  struct Outlook {
    bool decoding = false;     // somebody waits for the next token
    bool prefilling = false;   // prompts can be computed
    bool encoding = false;     // images can be encoded
    double decode = 0;         // the decode rows alone, predicted
    double least_prefill = 0;  // what the smallest chunk adds to it, predicted
    double stage = 0;          // the encoder's next stage, predicted; 0: nobody knows yet
  };
  // Decided before the forward.
  struct Shares {
    bool paced = false;  // there is a target to keep to
    // Whether prefill has a limit at all.
    bool limited() const { return prefill < std::numeric_limits<double>::infinity(); }
    // What prefill may add to the decode rows.
    double prefill = std::numeric_limits<double>::infinity();
    bool least_prefill = false;    // at least the smallest chunk, whatever it takes
    bool encoder_turn = false;     // one stage, if anything of the target is left
    bool encoder_overdue = false;  // one stage, whatever it takes
  };
  // What the step has done so far. Seconds.
  struct Spent {
    double forward = 0;
    double encode = 0;
    int stages = 0;
    bool prefilled = false;
  };

  // target_seconds: 0: no target. decode_share: as EngineSettings has it.
  explicit StepBudget(double target_seconds, double decode_share = 0)
      : target_(target_seconds), decode_share_(decode_share) {}

  Shares share(const Outlook& outlook) const;
  // After the forward and after each stage: whether the encoder does one more, of predicted length.
  bool another_stage(const Shares& shares, const Spent& spent, double stage) const;
  // Then, how long that may take, where the encoder can cut it.
  double encoder_room(const Shares& shares, const Spent& spent) const;
  // After the step.
  void settle(const Outlook& outlook, const Shares& shares, const Spent& spent);

  double overdraft() const { return overdraft_; }

 private:
  double target_;
  double decode_share_;
  double overdraft_ = 0;       // what recent steps took over the target, less what was saved since
  double encoder_credit_ = 0;  // without a target: of forwards' time, what images have not had
  double encoder_lead_ = 0;    // time that images had more than prompts while both wanted it
  int encoder_waits_ = 0;      // steps in which images could have been encoded and none was
  int prefill_waits_ = 0;
};

}  // namespace saccade
