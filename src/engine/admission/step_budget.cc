#include "engine/admission/step_budget.h"

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

// Of the target, or what one stage or chunk takes: a step that went wrong is soon forgotten.
constexpr double kMaxOverdraft = 0.5;
// Seconds that the encoder may be before or behind the forwards.
constexpr double kMaxCredit = 0.05;
constexpr double kMaxDebt = 1;

}  // namespace

StepBudget::Shares StepBudget::share(const Outlook& outlook) const {
  Shares shares;
  if (!outlook.decoding) return shares;
  if (target_ <= 0) {
    // Nothing is known of the first steps: they are not limited.
    if (decode_share_ <= 0 || outlook.decode <= 0) return shares;
    shares.prefill = std::max(kPiece, outlook.decode * (1 / decode_share_ - 1));
    shares.least_prefill = true;
    return shares;
  }
  shares.paced = true;
  const double room = target_ - outlook.decode - overdraft_;
  const bool encoder_overdue = outlook.encoding && encoder_waits_ >= kPatience;
  const bool prefill_overdue = outlook.prefilling && prefill_waits_ >= kPatience;
  const bool images_first = outlook.encoding && (!outlook.prefilling || encoder_overdue ||
                                                 (encoder_lead_ <= 0 && !prefill_overdue));
  shares.prefill = std::max(0.0, room);
  if (images_first) {
    shares.encoder_turn = room > 0;
    shares.encoder_overdue = encoder_overdue;
    // Whole stages of half the room, at least one; all of it while nobody knows what one takes.
    const double stages = std::max(1.0, std::floor(room / 2 / outlook.stage));
    const double reserved = outlook.stage > 0 ? stages * outlook.stage : room;
    shares.prefill = std::max(0.0, room - reserved);
  } else if (outlook.prefilling) {
    shares.least_prefill = room > 0 || prefill_overdue;
  }
  if (!shares.least_prefill && shares.prefill < outlook.least_prefill) shares.prefill = 0;
  return shares;
}

bool StepBudget::another_stage(const Shares& shares, const Spent& spent, double stage) const {
  if (!shares.paced) {
    if (spent.forward <= 0) return true;
    const double owed = encoder_credit_ + spent.forward - spent.encode;
    return owed >= std::min(stage, kLeastPiece);
  }
  const double left = target_ - overdraft_ - spent.forward - spent.encode;
  if (stage > 0 && stage <= left) return true;
  if (spent.stages > 0) return false;
  return shares.encoder_overdue || ((shares.encoder_turn || !spent.prefilled) && left > 0);
}

double StepBudget::encoder_room(const Shares& shares, const Spent& spent) const {
  if (shares.paced || spent.forward <= 0) return std::numeric_limits<double>::infinity();
  return std::max(kLeastPiece, encoder_credit_ + spent.forward - spent.encode);
}

void StepBudget::settle(const Outlook& outlook, const Shares& shares, const Spent& spent) {
  encoder_waits_ = outlook.encoding && spent.stages == 0 ? encoder_waits_ + 1 : 0;
  prefill_waits_ = outlook.prefilling && !spent.prefilled ? prefill_waits_ + 1 : 0;
  const bool shared = !shares.paced && outlook.encoding && spent.forward > 0;
  encoder_credit_ =
      shared ? std::clamp(encoder_credit_ + spent.forward - spent.encode, -kMaxDebt, kMaxCredit)
             : 0;
  if (!shares.paced) {
    overdraft_ = 0;
    encoder_lead_ = 0;
    return;
  }
  const double most = std::max({kMaxOverdraft * target_, outlook.stage, outlook.least_prefill});
  overdraft_ = std::clamp(overdraft_ + spent.forward + spent.encode - target_, 0.0, most);
  // Who wants nothing, or could not use its turn, has no claim from it later.
  const bool both = outlook.encoding && outlook.prefilling && (spent.prefilled || spent.stages > 0);
  if (!both) {
    encoder_lead_ = 0;
    return;
  }
  const double prefill = spent.prefilled ? std::max(0.0, spent.forward - outlook.decode) : 0;
  encoder_lead_ = std::clamp(encoder_lead_ + spent.encode - prefill, -target_, target_);
}

}  // namespace saccade
