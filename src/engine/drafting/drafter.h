// Draft tokens of the next step: who proposes them once the tokens before are known, the text
// itself or a draft model, and how many are worth their price. What they are goes into
// Sequence::draft; the scheduler finds room for them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/admission/step_pacer.h"
#include "engine/drafting/draft_choice.h"
#include "engine/engine_setup.h"

namespace saccade {

// What is kept of one sequence for drafting.
struct DraftingState {
  DraftingState(const Request& request, const EngineParts& parts);

  bool allowed = false;                  // tokens may be drafted
  std::optional<Speculator> speculator;  // from the text; absent with a draft model
  std::optional<DraftRecord> drafted;    // of a draft model, once it has been asked
  DraftReader reader;
};

// Engine thread.
class Drafter {
 public:
  // All of these outlive it.
  Drafter(const EngineParts& parts, const Scheduler& scheduler, const StepPacer& pacer);

  // Its last tokens have become known, and it goes on: the next propose() is for it too. Both stay
  // where they are until then.
  void follow(Sequence& sequence, DraftingState& record);
  void propose();
  // The sequence ends, or has been preempted: what a draft model holds of it goes back.
  void release(DraftingState& record);

 private:
  struct Followed {
    Sequence* sequence = nullptr;
    DraftingState* record = nullptr;
  };

  void ask_model(double row_price);
  DraftChoice::Candidate candidate(const Followed& of);
  DraftPrices prices(double row_price) const;
  bool asks(const Followed& of, std::int64_t count, DraftModel::Ask& ask) const;

  DraftModel* const model_;  // null: no draft model
  const std::int64_t max_tokens_;
  const Scheduler& scheduler_;
  const StepPacer& pacer_;
  std::vector<Followed> followed_;  // whose tokens have just become known
  DraftChoice choice_;
  AcceptanceRate rate_{1.0 / 64};  // of all sequences
};

}  // namespace saccade
