#include "engine/admission/step_pacer.h"

#include <algorithm>

namespace saccade {
namespace {

constexpr std::int64_t kLeastPrefill = 16;  // tokens of the smallest chunk that is worth a step

// What the sequences that run would make of a step with `prefill_tokens`.
StepLoad with_prefill(StepLoad load, std::int64_t tokens) {
  const double seen =
      load.prefill_context / static_cast<double>(std::max<std::int64_t>(1, load.prefill_tokens));
  load.prefill_tokens = tokens;
  load.prefill_context = static_cast<double>(tokens) * (seen + static_cast<double>(tokens) / 2);
  return load;
}

// A step of those that decode.
StepLoad decode_load(const Scheduler& scheduler) {
  StepLoad load;
  for (const Sequence* sequence : scheduler.running()) {
    if (sequence->phase() != Phase::kDecoding) continue;
    load.context_tokens += sequence->computed();
    ++load.decode_rows;
  }
  return load;
}

StepLoad load_of(const StepPlan& plan) {
  StepLoad load;
  load.decode_rows = plan.decode_rows;
  load.prefill_tokens = plan.tokens - plan.decode_rows;
  load.context_tokens = plan.context_tokens;
  for (const PlannedRows& rows : plan.rows) {
    if (rows.count == 1 || rows.drafts > 0) continue;
    load.prefill_context += static_cast<double>(rows.count) *
                            (static_cast<double>(rows.begin) + static_cast<double>(rows.count) / 2);
  }
  return load;
}

}  // namespace

StepLimits StepPacer::begin(const Scheduler& scheduler, bool encoding, double stage_seconds) {
  // One prefill token stands for each prompt in progress: what they see on average counts.
  StepLoad load;
  for (const Sequence* sequence : scheduler.running()) {
    load.context_tokens += sequence->computed();
    if (sequence->phase() == Phase::kDecoding) {
      ++load.decode_rows;
    } else {
      ++load.prefill_tokens;
      load.prefill_context += static_cast<double>(sequence->computed());
    }
  }
  outlook_ = {};
  spent_ = {};
  outlook_.decoding = load.decode_rows > 0;
  outlook_.prefilling =
      load.prefill_tokens > 0 || scheduler.waiting() > scheduler.waiting_for_images();
  outlook_.encoding = encoding;
  outlook_.stage = stage_seconds;
  // Without a target only prompts beside those that decode are worth a prediction.
  const bool shared = outlook_.prefilling && step_time_.observations() >= StepTimeModel::kTrusted;
  if (outlook_.decoding && (target_ > 0 || shared)) {
    outlook_.decode = step_time_.predict(with_prefill(load, 0));
    outlook_.least_prefill =
        step_time_.predict(with_prefill(load, kLeastPrefill)) - outlook_.decode;
  }
  shares_ = budget_.share(outlook_);
  StepLimits limits;
  if (!shares_.limited()) return limits;
  if (shares_.prefill > 0) {
    limits.prefill_tokens =
        step_time_.largest_prefill(load, outlook_.decode + shares_.prefill, max_prefill_);
  } else {
    limits.prefill_tokens = 0;
  }
  if (shares_.least_prefill) {
    limits.prefill_tokens = std::max(limits.prefill_tokens, std::min(kLeastPrefill, max_prefill_));
  }
  return limits;
}

double StepPacer::row_price(const Scheduler& scheduler, std::int64_t more) const {
  StepLoad load = decode_load(scheduler);
  const double now = step_time_.predict(load);
  load.decode_rows += more;
  return tokens_in(scheduler, (step_time_.predict(load) - now) / static_cast<double>(more));
}

double StepPacer::tokens_in(const Scheduler& scheduler, double seconds) const {
  if (step_time_.observations() < StepTimeModel::kTrusted) return 0;
  const StepLoad load = decode_load(scheduler);
  const auto given = static_cast<double>(std::max<std::int64_t>(1, load.decode_rows));
  const double now = step_time_.predict(load);
  return now > 0 ? seconds * given / now : 0;
}

void StepPacer::forwarded(const StepPlan& plan, double seconds) {
  const StepLoad load = load_of(plan);
  step_time_.observe(load, seconds);
  spent_.forward = seconds;
  spent_.prefilled = load.prefill_tokens > 0;
}

void StepPacer::staged(double seconds) {
  spent_.encode += seconds;
  ++spent_.stages;
}

}  // namespace saccade
